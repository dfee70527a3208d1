package main

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/tollgate-dev/tollgate/internal/app"
	"github.com/tollgate-dev/tollgate/internal/codec"
	"github.com/tollgate-dev/tollgate/internal/devserver/simcloud"
	"github.com/tollgate-dev/tollgate/internal/provider/local"
)

func (d *dev) httpURL() string { return "http://" + loopback(d.opts.httpPort) }

func (d *dev) codecURL() string { return d.httpURL() + codec.PathPrefix }

// announce prints where everything is and what to try.
func (d *dev) announce(token string) {
	d.say("\nTollgate is running.")
	d.say("  Web UI           %s", d.engine.UIURL())
	d.say("    decoded        %s", d.httpURL()+codec.PathLogin+"?token="+url.QueryEscape(token))
	d.say("  discovery API    %s/v1/proxies, token in %s", d.httpURL(), shown(d.state.TokenFile()))
	d.sayReporting()
	d.say("  metrics          http://%s/metrics", loopback(d.opts.metricsPort))
	d.say("  Temporal         %s, namespace default", d.engine.HostPort())
	d.say("  configuration    %s", shown(d.config))
	d.say("  logs             %s, %s", shown(d.state.Path("tollgate.log")), shown(d.engine.LogFile()))
	d.sayClouds()
	d.say("\nTry, in another terminal:")
	for _, line := range d.firstSteps() {
		d.say("  %s", line)
	}
	d.say("\nCtrl-C stops.")
}

// firstSteps are commands that work as they stand, in the directory that
// tollgate-dev was started in.
func (d *dev) firstSteps() []string {
	cli := sibling("tollgate")
	var steps []string
	if env := d.clientEnv(); len(env) > 0 {
		steps = append(steps, "export "+strings.Join(env, " "))
	}
	if d.hetzner != nil {
		steps = append(steps, cli+" proxy create cloud --provider "+simcloud.HetznerProvider+" --wait", sibling("tollgate-dev")+" demo-day"+d.stateDirFlag())
	}
	if d.kubernetes != nil {
		steps = append(steps, cli+" proxy create pod --provider "+simcloud.KubernetesProvider+" --wait")
	}
	if d.openstack != nil {
		steps = append(steps, cli+" proxy create server --provider "+simcloud.OpenStackProvider+" --wait")
	}
	if name, ok := d.demoProvider(); ok {
		steps = append(steps, cli+" proxy create demo --provider "+quoted(name)+" --wait")
	}
	return append(steps,
		cli+" proxy list",
		`curl -H "Authorization: Bearer $(cat `+quoted(shown(d.state.TokenFile()))+`)" `+d.httpURL()+"/v1/proxies",
	)
}

// demoProvider is where the example's proxy is created: at a provider that needs no
// cloud, or else at the first that the other steps have not named; ok is false if
// there is none.
func (d *dev) demoProvider() (name string, ok bool) {
	simulated := map[string]bool{
		simcloud.HetznerProvider:    d.hetzner != nil,
		simcloud.KubernetesProvider: d.kubernetes != nil,
		simcloud.OpenStackProvider:  d.openstack != nil,
	}
	for _, p := range d.providers {
		if p.Type == local.TypeName {
			return p.Name, true
		}
	}
	for _, p := range d.providers {
		if !simulated[p.Name] {
			return p.Name, true
		}
	}
	return "", false
}

// sibling is one of the programs beside this one.
func sibling(name string) string {
	self, err := os.Executable()
	if err != nil {
		return name
	}
	return shown(filepath.Join(filepath.Dir(self), name))
}

// stateDirFlag is what a command needs to find this state directory.
func (d *dev) stateDirFlag() string {
	if abs, err := filepath.Abs(defaultOptions().stateDir); err == nil && abs == d.state.Dir {
		return ""
	}
	return " --state-dir " + quoted(shown(d.state.Dir))
}

// clientEnv is what the command line cannot find by itself.
func (d *dev) clientEnv() []string {
	var env []string
	defaults := defaultOptions()
	if d.opts.temporalPort != defaults.temporalPort {
		env = append(env, "TEMPORAL_ADDRESS="+d.engine.HostPort())
	}
	if abs, err := filepath.Abs(defaults.stateDir); err != nil || abs != d.state.Dir {
		env = append(env, "TOLLGATE_CODEC_KEYS="+quoted(d.state.Path(app.KeyFileName)))
	}
	return env
}

// shown is a path as a person in the working directory would write it.
func shown(path string) string {
	wd, err := os.Getwd()
	if err != nil {
		return path
	}
	rel, err := filepath.Rel(wd, path)
	if err != nil || strings.HasPrefix(rel, "..") {
		return path
	}
	return rel
}

// quoted makes a path one word of a shell.
func quoted(path string) string {
	if strings.ContainsAny(path, " \t'\"$&;|<>()*?[]#~`\\") {
		return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
	}
	return path
}
