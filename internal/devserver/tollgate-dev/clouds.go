package main

import (
	"bytes"
	"context"
	"time"

	"github.com/tollgate-dev/tollgate/internal/devserver/simcloud"
)

const cloudStopLimit = 3 * time.Second

// simulators are those that --with knows.
var simulators = []string{simcloud.HetznerName, simcloud.KubernetesName, simcloud.OpenStackName}

// simulate starts the simulators that the command line asks for.
func (d *dev) simulate() (err error) {
	for _, name := range d.opts.with {
		switch name {
		case simcloud.HetznerName:
			if d.hetzner, err = simcloud.StartHetzner(d.state.Path(name), d.log); err == nil {
				d.onClose(func() { d.stopCloud(name, d.hetzner.Close) })
			}
		case simcloud.KubernetesName:
			if d.kubernetes, err = simcloud.StartKubernetes(d.state.Path(name), d.log); err == nil {
				d.onClose(func() { d.stopCloud(name, d.kubernetes.Close) })
			}
		case simcloud.OpenStackName:
			if d.openstack, err = simcloud.StartOpenStack(d.state.Path(name), d.log); err == nil {
				d.onClose(func() { d.stopCloud(name, d.openstack.Close) })
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (d *dev) stopCloud(name string, stop func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), cloudStopLimit)
	defer cancel()
	if err := stop(ctx); err != nil {
		d.log.Warn("simulator stop failed", "simulator", name, "error", err)
	}
}

// overlay is what the Reporting API and the simulators add to the configuration;
// the file stays as it is.
func (d *dev) overlay() []byte {
	docs := [][]byte{d.reportingOverlay()}
	if d.hetzner != nil {
		docs = append(docs, d.hetzner.Config(), d.hetzner.Sources(reportingSink))
	}
	if d.kubernetes != nil {
		docs = append(docs, d.kubernetes.Config())
	}
	if d.openstack != nil {
		docs = append(docs, d.openstack.Config(), d.openstack.Sources(reportingSink))
	}
	return bytes.Join(docs, []byte("---\n"))
}

// sayClouds prints where the simulators are.
func (d *dev) sayClouds() {
	if d.hetzner != nil {
		d.say("  simulated cloud  %s, provider %s, token in %s", d.hetzner.Endpoint(), simcloud.HetznerProvider, shown(d.hetzner.TokenFile()))
		d.say("    its state      curl %s/state", d.hetzner.AdminURL())
		d.say("    make it fail   curl %s/sellout -d '{\"location\":\"nbg1\",\"type\":\"cx23\"}'", d.hetzner.AdminURL())
	}
	if d.kubernetes != nil {
		d.say("  simulated cluster %s, provider %s, token in %s", d.kubernetes.Endpoint(), simcloud.KubernetesProvider, shown(d.kubernetes.TokenFile()))
		d.say("    make it full   curl %s/quota -d '{\"resource\":\"pods\",\"limit\":1}'", d.kubernetes.AdminURL())
	}
	if d.openstack != nil {
		d.say("  simulated OpenStack %s, provider %s, password in %s", d.openstack.Endpoint(), simcloud.OpenStackProvider, shown(d.openstack.PasswordFile()))
		d.say("    its state      curl %s/state", d.openstack.AdminURL())
		d.say("    make it full   curl %s/quota -d '{\"instances\":1}'", d.openstack.AdminURL())
	}
}
