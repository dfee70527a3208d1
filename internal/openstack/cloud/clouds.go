package cloud

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
	"go.yaml.in/yaml/v3"
)

// errNoAuth is an entry of clouds.yaml without credentials.
var errNoAuth = errors.New("has no auth in clouds.yaml")

// fromClouds reads an entry of clouds.yaml, with what secure.yaml has of it.
func (o *Access) fromClouds(cloud string) (login, error) {
	file, secure := o.cloudsFiles()
	opts := []clouds.ParseOption{clouds.WithCloudName(cloud), clouds.WithLocations(file...), clouds.WithSecureLocations(secure...)}
	if o.CAFile != "" {
		opts = append(opts, clouds.WithCACertPath(o.CAFile))
	}
	l, err := parse(opts)
	if err == nil {
		return l, nil
	}
	if names := cloudNames(file); len(names) > 0 && !slices.Contains(names, cloud) {
		return login{}, fmt.Errorf("cloud: %q: want one of %s", cloud, strings.Join(names, ", "))
	}
	return login{}, fmt.Errorf("cloud: %q: %w", cloud, err)
}

// parse is the library's, which takes it for granted that an entry has
// credentials, and quotes values that it cannot read.
func parse(opts []clouds.ParseOption) (l login, err error) {
	defer func() {
		if recover() != nil {
			l, err = login{}, errNoAuth
		}
	}()
	ao, eo, tc, err := clouds.Parse(opts...)
	if err != nil {
		text := strings.ReplaceAll(err.Error(), "\n ", "")
		return login{}, errors.New(quoted.ReplaceAllString(text, "...$1"))
	}
	return login{auth: ao, region: eo.Region, endpoint: string(eo.Availability), tls: tc}, nil
}

// quoted is a value in the text of what reads YAML.
var quoted = regexp.MustCompile("`[^`]*`( into)")

// cloudsFiles are where clouds.yaml and secure.yaml are looked for, each where the
// openstack command does. Beside a file that is named there may be the other one,
// too.
func (o *Access) cloudsFiles() (file, secure []string) {
	home := os.Getenv("XDG_CONFIG_HOME")
	if dir, err := os.UserHomeDir(); err == nil && home == "" {
		home = filepath.Join(dir, ".config")
	}
	for _, dir := range []string{".", filepath.Join(home, "openstack"), "/etc/openstack"} {
		file, secure = append(file, filepath.Join(dir, "clouds.yaml")), append(secure, filepath.Join(dir, "secure.yaml"))
	}
	if named := cmp.Or(o.CloudsFile, os.Getenv("OS_CLIENT_CONFIG_FILE")); named != "" {
		beside := filepath.Join(filepath.Dir(named), "secure.yaml")
		if file = []string{named}; o.CloudsFile != "" {
			secure = []string{beside}
		} else {
			secure = append([]string{beside}, secure...)
		}
	}
	if named := os.Getenv("OS_CLIENT_SECURE_FILE"); named != "" {
		secure = []string{named}
	}
	return file, secure
}

// cloudNames are the entries of the first of these files that is there.
func cloudNames(files []string) []string {
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		var doc struct {
			Clouds map[string]any `yaml:"clouds"`
		}
		_ = yaml.Unmarshal(b, &doc) // what is wrong with it has been told
		return slices.Sorted(maps.Keys(doc.Clouds))
	}
	return nil
}
