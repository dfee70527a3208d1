package main

import "testing"

func TestWithRefuses(t *testing.T) {
	t.Parallel()
	for want, with := range map[string][]string{
		"--with aws-sim: is unknown: use one of hetzner-sim, kubernetes-sim, openstack-sim": {"aws-sim"},
		"--with hetzner-sim: is given twice":                                                {"hetzner-sim", "hetzner-sim"},
	} {
		o := defaultOptions()
		o.with = with
		if err := o.check(); err == nil || err.Error() != want {
			t.Errorf("%v: %v, want %s", with, err, want)
		}
	}
}
