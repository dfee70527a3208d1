package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/strictyaml"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// kindProxyList is the kind of the documents that lists are printed as.
const kindProxyList = api.KindProxy + "List"

// proxyList is a list of proxies as a document.
type proxyList struct {
	APIVersion string      `json:"apiVersion"`
	Kind       string      `json:"kind"`
	Items      []api.Proxy `json:"items"`
}

// manifest is one Proxy document that somebody wrote.
type manifest struct {
	doc   strictyaml.Document
	proxy api.Proxy
	object
}

// where is the file and line of the document.
func (m manifest) where() string { return fmt.Sprintf("%s:%d", m.doc.File(), m.doc.Line()) }

// manifests reads files, directories and standard input ("-") and checks all of
// it. Nothing is returned unless everything is right; the error joins all
// problems.
func (a *app) manifests(paths []string, recursive bool) ([]manifest, error) {
	var docs []strictyaml.Document
	var errs []error
	for _, p := range paths {
		d, err := a.documents(p, recursive)
		docs, errs = append(docs, d...), append(errs, err)
	}
	var out []manifest
	for _, d := range docs {
		m, err := a.parse(d)
		out, errs = append(out, m...), append(errs, err)
	}
	seen := map[object]manifest{}
	for _, m := range out {
		if first, dup := seen[m.object]; dup {
			errs = append(errs, m.doc.Errorf("metadata.name", "%s stands in %s too: give each proxy once", m.object, first.where()))
			continue
		}
		seen[m.object] = m
	}
	if err := errors.Join(errs...); err != nil {
		return nil, usageErr(err)
	}
	if len(out) == 0 {
		return nil, usage("%s: no documents", strings.Join(paths, ", "))
	}
	return out, nil
}

func (a *app) documents(path string, recursive bool) ([]strictyaml.Document, error) {
	if path == "-" {
		return strictyaml.Documents(a.env.Stdin, "stdin")
	}
	info, err := os.Stat(a.path(path))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, reasonOf(err))
	}
	if !info.IsDir() {
		return a.file(path)
	}
	var docs []strictyaml.Document
	var errs []error
	found := false
	err = filepath.WalkDir(a.path(path), func(p string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && !recursive && p != a.path(path):
			return fs.SkipDir
		case e.IsDir() || !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(p)):
			return nil
		}
		found = true
		rel, err := filepath.Rel(a.path(path), p)
		if err != nil {
			return err
		}
		d, err := a.file(filepath.Join(path, rel))
		docs, errs = append(docs, d...), append(errs, err)
		return nil
	})
	if err == nil && !found {
		err = fmt.Errorf("%s: no .yaml, .yml or .json file in this directory", path)
	}
	return docs, errors.Join(append(errs, err)...)
}

func (a *app) file(path string) ([]strictyaml.Document, error) {
	f, err := os.Open(a.path(path))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, reasonOf(err))
	}
	defer f.Close()
	return strictyaml.Documents(f, path)
}

// readFile reads a file's bytes, "-" being standard input.
func (a *app) readFile(flag, path string, limit int64) ([]byte, error) {
	var r io.Reader = a.env.Stdin
	if path != "-" {
		f, err := os.Open(a.path(path))
		if err != nil {
			return nil, usage("--%s: %s: %v", flag, path, reasonOf(err))
		}
		defer f.Close()
		r = f
	}
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	switch {
	case err != nil:
		return nil, usage("--%s: %s: %v", flag, path, reasonOf(err))
	case int64(len(data)) > limit:
		return nil, usage("--%s: %s: is larger than %d KiB", flag, path, limit>>10)
	case len(data) == 0:
		return nil, usage("--%s: %s: is empty", flag, path)
	}
	return data, nil
}

func (a *app) path(p string) string {
	if filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(a.env.Dir, p)
}

// reasonOf drops the path from a file error, which the message has already.
func reasonOf(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// parse checks one document; a list gives its items.
func (a *app) parse(d strictyaml.Document) ([]manifest, error) {
	kind, _ := d.String("kind")
	version, _ := d.String("apiVersion")
	switch {
	case d.Node().Kind != yaml.MappingNode:
		return nil, d.Errorf("", "is no object: want apiVersion: %s, kind: %s", api.APIVersion, api.KindProxy)
	case version == "":
		return nil, d.Errorf("apiVersion", "is required: use %s", api.APIVersion)
	case version != api.APIVersion:
		return nil, d.Errorf("apiVersion", "%q is unknown: use %s", version, api.APIVersion)
	case kind == "":
		return nil, d.Errorf("kind", "is required: use %s", api.KindProxy)
	case kind == api.KindProxy:
		m, err := a.parseProxy(d)
		if err != nil {
			return nil, err
		}
		return []manifest{m}, nil
	case kind == kindProxyList:
		return a.parseList(d)
	}
	return nil, d.Errorf("kind", "%q is unknown: use %s or %s", kind, api.KindProxy, kindProxyList)
}

func (a *app) parseList(d strictyaml.Document) ([]manifest, error) {
	var list struct {
		APIVersion string      `yaml:"apiVersion"`
		Kind       string      `yaml:"kind"`
		Items      []yaml.Node `yaml:"items"`
	}
	if err := d.Decode(&list); err != nil {
		return nil, err
	}
	var out []manifest
	var errs []error
	for i := range list.Items {
		item := strictyaml.FromNode(&list.Items[i], d.File(), fmt.Sprintf("items[%d]", i))
		m, err := a.parse(item)
		out, errs = append(out, m...), append(errs, err)
	}
	return out, errors.Join(errs...)
}

func (a *app) parseProxy(d strictyaml.Document) (manifest, error) {
	m := manifest{doc: d}
	// What is ignored need not be understood: a newer server may say more.
	if err := withoutStatus(d).Decode(&m.proxy); err != nil {
		return m, err
	}
	meta := m.proxy.Metadata
	m.object = object{meta.Namespace, meta.Name}
	var errs []error
	switch {
	case meta.Namespace == "":
		m.namespace = a.namespace
	case a.namespaceSet && meta.Namespace != a.namespace:
		errs = append(errs, fmt.Errorf("metadata.namespace: %q is not the namespace given by --namespace, %q", meta.Namespace, a.namespace))
	default:
		errs = append(errs, provider.ValidateName("metadata.namespace", meta.Namespace))
	}
	if meta.Name == "" {
		errs = append(errs, errors.New("metadata.name: is required"))
	} else {
		errs = append(errs, provider.ValidateName("metadata.name", meta.Name))
	}
	errs = append(errs, api.ValidateLabels("metadata.labels", meta.Labels), m.proxy.Spec.Validate())
	if errors.Join(errs...) == nil {
		errs = append(errs, a.mayLeave(m.proxy.Spec))
	}
	return m, d.Annotate(errors.Join(errs...))
}

// withoutStatus is the document without its status.
func withoutStatus(d strictyaml.Document) strictyaml.Document {
	n := *d.Node()
	n.Content = nil
	for i := 0; i+1 < len(d.Node().Content); i += 2 {
		if k := d.Node().Content[i]; k.Value != "status" {
			n.Content = append(n.Content, k, d.Node().Content[i+1])
		}
	}
	return d.With(&n)
}

// mayLeave refuses an inline secret that would leave this machine in the clear.
func (a *app) mayLeave(s api.ProxySpec) error {
	if s.CloudInit == nil || s.CloudInit.Inline == "" || s.CloudInit.Inline == api.RedactedInline || a.keyFile() != "" {
		return nil
	}
	return errors.New("spec.cloudInit.inline: would leave this machine unencrypted, as there is no key file: " +
		"put the value into the workers' secrets and name it in spec.cloudInit.secretRef, " +
		"or give the workers' key file with --codec-key-file or " + envKeyFile)
}
