package cli

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// maxCloudInit keeps a spec well below what Temporal takes as one payload.
const maxCloudInit = 1 << 20

// specFlags are the flags that describe a proxy.
type specFlags struct {
	provider, region, zone, machineType, image string
	port                                       portFlag
	cloudInit, cloudInitSecret, authSecret     string
	replacement                                choice
	neverHealthyAfter                          api.Duration
	labels                                     []string
	update                                     bool
}

// portFlag is a TCP port.
type portFlag int

func (p *portFlag) String() string {
	if *p == 0 {
		return ""
	}
	return strconv.Itoa(int(*p))
}

func (p *portFlag) Set(v string) error {
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 || n > 65535 {
		return fmt.Errorf("use a TCP port, 1 to 65535")
	}
	*p = portFlag(n)
	return nil
}

func (p *portFlag) Type() string { return "port" }

type durationFlag api.Duration

func (d *durationFlag) String() string {
	if *d == 0 {
		return ""
	}
	return api.Duration(*d).String()
}

func (d *durationFlag) Set(v string) error {
	return (*api.Duration)(d).UnmarshalJSON([]byte(strconv.Quote(v)))
}

func (d *durationFlag) Type() string { return "duration" }

func (f *specFlags) register(fs *pflag.FlagSet, update bool) {
	f.update = update
	f.replacement = choice{"", []string{string(api.Recreate), string(api.CreateBeforeDelete)}}
	if !update {
		fs.StringVarP(&f.provider, "provider", "p", "", "configured name of the provider (required)")
	}
	fs.Var(&f.port, "port", fmt.Sprintf("TCP port of the proxy (default %d)", api.DefaultPort))
	fs.StringVar(&f.region, "region", "", "region at the provider")
	fs.StringVar(&f.zone, "zone", "", "zone at the provider")
	fs.StringVar(&f.machineType, "machine-type", "", "machine type at the provider")
	fs.StringVar(&f.image, "image", "", "image at the provider")
	fs.StringVar(&f.cloudInit, "cloud-init", "", "`file` with cloud-init for the instance, - for standard input; sent encrypted, so a key file is needed")
	fs.StringVar(&f.cloudInitSecret, "cloud-init-secret", "", "`name` of the workers' secret that holds the cloud-init")
	fs.StringVar(&f.authSecret, "auth-secret", "", "`name` of the workers' secret that holds username:password for clients")
	fs.Var(&f.replacement, "replacement", "order of a replacement (default Recreate)")
	fs.Var((*durationFlag)(&f.neverHealthyAfter), "never-healthy-after", fmt.Sprintf("how long a new instance may take until it is proven (default %s)", api.Duration(api.DefaultNeverHealthyAfter)))
	labels := "label `key=value`; may be repeated"
	if update {
		labels = "label `key=value` to set, key- to remove; may be repeated"
	}
	fs.StringArrayVarP(&f.labels, "label", "l", nil, labels)
}

// edit applies the flags that were given to p.
func (f *specFlags) edit(a *app, fs *pflag.FlagSet, p *api.Proxy) error {
	set := func(flag string, to *string, v string) {
		if fs.Changed(flag) {
			*to = v
		}
	}
	s := &p.Spec
	set("provider", &s.Provider, f.provider)
	set("region", &s.Placement.Region, f.region)
	set("zone", &s.Placement.Zone, f.zone)
	set("machine-type", &s.Placement.MachineType, f.machineType)
	set("image", &s.Placement.Image, f.image)
	if fs.Changed("port") {
		s.Port = int(f.port)
	}
	if fs.Changed("replacement") {
		s.Replacement = api.ReplacementStrategy(f.replacement.value)
	}
	if fs.Changed("never-healthy-after") {
		s.NeverHealthyAfter = f.neverHealthyAfter
	}
	if err := f.secrets(a, fs, s); err != nil {
		return err
	}
	labels, err := editLabels(p.Metadata.Labels, f.labels, f.update)
	if err != nil {
		return err
	}
	p.Metadata.Labels = labels
	return nil
}

func (f *specFlags) secrets(a *app, fs *pflag.FlagSet, s *api.ProxySpec) error {
	if fs.Changed("cloud-init") && fs.Changed("cloud-init-secret") {
		return usage("--cloud-init and --cloud-init-secret are both given: use one")
	}
	if fs.Changed("cloud-init") {
		s.CloudInit = nil
		if f.cloudInit != "" {
			data, err := a.readFile("cloud-init", f.cloudInit, maxCloudInit)
			if err != nil {
				return err
			}
			if !utf8.Valid(data) {
				return usage("--cloud-init: %s: is no UTF-8 text", f.cloudInit)
			}
			s.CloudInit = &api.SecretSource{Inline: string(data)}
		}
	}
	ref := func(flag, name string, to **api.SecretSource) error {
		if !fs.Changed(flag) {
			return nil
		}
		*to = nil
		if name == "" {
			return nil
		}
		*to = &api.SecretSource{SecretRef: name}
		return usageErr(provider.ValidateName("--"+flag, name))
	}
	if err := ref("cloud-init-secret", f.cloudInitSecret, &s.CloudInit); err != nil {
		return err
	}
	return ref("auth-secret", f.authSecret, &s.Auth)
}

// editLabels sets key=value and, where removal is allowed, removes key-.
func editLabels(old map[string]string, edits []string, removal bool) (map[string]string, error) {
	if len(edits) == 0 {
		return old, nil
	}
	labels := maps.Clone(old)
	if labels == nil {
		labels = map[string]string{}
	}
	for _, e := range edits {
		key, value, isSet := strings.Cut(e, "=")
		switch {
		case isSet && key != "":
			labels[key] = value
		case removal && !isSet && strings.HasSuffix(key, "-") && len(key) > 1:
			delete(labels, strings.TrimSuffix(key, "-"))
		default:
			return nil, usage("--label: %q is no label: use key=value", e)
		}
	}
	return labels, usageErr(api.ValidateLabels("--label", labels))
}

// validate checks a proxy made of flags.
func (a *app) validate(p api.Proxy) error {
	if err := p.Spec.Validate(); err != nil {
		return usageErr(err)
	}
	return usageErr(a.mayLeave(p.Spec))
}
