// Package deploy holds no code: its tests keep the files here in step with the
// rest of the tree.
package deploy

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// documents parses a YAML file, which may have several documents.
func documents(t *testing.T, path string) []map[string]any {
	t.Helper()
	d := yaml.NewDecoder(strings.NewReader(read(t, path)))
	var out []map[string]any
	for {
		var doc map[string]any
		err := d.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		out = append(out, doc)
	}
}

func TestYAMLParsesAndImagesArePinned(t *testing.T) {
	t.Parallel()
	image := regexp.MustCompile(`(?m)^\s*(?:image:|FROM)\s+(\S+)`)
	files := []string{"Dockerfile"}
	err := filepath.WalkDir(".", func(path string, e fs.DirEntry, err error) error {
		if filepath.Ext(path) == ".yaml" {
			files = append(files, path)
			if len(documents(t, path)) == 0 {
				t.Errorf("%s is empty", path)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		for _, m := range image.FindAllStringSubmatch(read(t, f), -1) {
			_, tag, tagged := strings.Cut(m[1], ":")
			// kustomize puts the tag to its own name.
			if m[1] != "tollgate" && (!tagged || tag == "latest") {
				t.Errorf("%s: image %s is not pinned", f, m[1])
			}
		}
	}
}

func TestDockerfileBuildsWhatIsThere(t *testing.T) {
	t.Parallel()
	text := read(t, "Dockerfile")
	builds := regexp.MustCompile(`-o /out/bin/(\S+) (\./\S+)`).FindAllStringSubmatch(text, -1)
	if len(builds) != 4 {
		t.Fatalf("%d programs are built, want 4", len(builds))
	}
	ignored := strings.Fields(read(t, "Dockerfile.dockerignore"))
	for _, b := range builds {
		main, err := os.ReadFile(filepath.Join("..", b[2], "main.go"))
		if err != nil || !bytes.Contains(main, []byte("package main")) {
			t.Errorf("%s: %s is no program: %v", b[1], b[2], err)
		}
		for _, i := range ignored {
			if strings.HasPrefix(strings.TrimPrefix(b[2], "./"), i) {
				t.Errorf("%s is left out of the build by %s", b[2], i)
			}
		}
	}
	goVersion := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(read(t, "../go.mod"))
	if goVersion == nil || !strings.Contains(text, "golang:"+goVersion[1]+".") {
		t.Errorf("the image builds with another Go than go.mod wants: %v", goVersion)
	}
}

func TestKustomizationsNameTheirFiles(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{"kustomize/base", "kustomize/example", "kustomize/reporting"} {
		k := documents(t, filepath.Join(dir, "kustomization.yaml"))[0]
		named := []string{"kustomization.yaml"}
		for _, r := range k["resources"].([]any) {
			named = append(named, r.(string))
		}
		generators, _ := k["configMapGenerator"].([]any)
		for _, g := range generators {
			for _, f := range g.(map[string]any)["files"].([]any) {
				named = append(named, f.(string))
			}
		}
		for _, n := range named {
			if _, err := os.Stat(filepath.Join(dir, n)); err != nil {
				t.Error(err)
			}
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if !slices.Contains(named, e.Name()) {
				t.Errorf("%s/%s is not in the kustomization", dir, e.Name())
			}
		}
	}
}

func TestCloudInitSamples(t *testing.T) {
	t.Parallel()
	samples, err := filepath.Glob("cloud-init/*.yaml")
	if err != nil || len(samples) == 0 {
		t.Fatalf("no samples: %v", err)
	}
	for _, s := range samples {
		text := read(t, s)
		if !strings.HasPrefix(text, "#cloud-config\n") {
			t.Errorf("%s: cloud-init takes it for a script", s)
		}
		// The smallest limit of a cloud for user data, Hetzner's.
		if len(text) > 32<<10 {
			t.Errorf("%s has %d bytes", s, len(text))
		}
		doc := documents(t, s)[0]
		pinned := false
		for _, f := range doc["write_files"].([]any) {
			content := f.(map[string]any)["content"].(string)
			pinned = pinned || strings.Contains(content, "Pin: version ")
			if strings.Contains(content, "src all") || strings.Contains(content, "allow all") {
				t.Errorf("%s: an open proxy", s)
			}
		}
		if !pinned {
			t.Errorf("%s: the proxy's version is not pinned", s)
		}
	}
}
