// Package docs holds no code: its tests keep the pages' links and the settings
// and targets they name in step with the tree.
package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

const root = ".."

var (
	// link is an inline link or image whose target has no space.
	link = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	// fence opens or closes a block of code, where brackets are no links.
	fence = regexp.MustCompile("^\\s*(```|~~~)")
	// inlineCode is code in a line.
	inlineCode = regexp.MustCompile("`[^`]*`")
	heading    = regexp.MustCompile(`^#{1,6} +(.*?)\s*#*$`)
	anchorTag  = regexp.MustCompile(`<a (?:id|name)="([^"]+)"`)
	makeTarget = regexp.MustCompile("`make ([a-z][a-z0-9-]*)")
)

// pages are all Markdown files of the tree.
func pages(t *testing.T) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := e.Name()
		if e.IsDir() && path != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "bin") {
			return fs.SkipDir
		}
		if filepath.Ext(name) == ".md" {
			found = append(found, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) == 0 {
		t.Fatal("found no pages")
	}
	return found
}

// prose are the lines of a page with its blocks of code left empty, so that line
// numbers stay.
func prose(t *testing.T, path string) []string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(b), "\n")
	inCode := false
	for i, line := range lines {
		isFence := fence.MatchString(line)
		if isFence {
			inCode = !inCode
		}
		if inCode || isFence {
			lines[i] = ""
		}
	}
	return lines
}

// anchors are the fragments that a page has, by the rules of the usual forges.
func anchors(t *testing.T, path string) []string {
	t.Helper()
	var found []string
	times := map[string]int{}
	for _, line := range prose(t, path) {
		for _, m := range anchorTag.FindAllStringSubmatch(line, -1) {
			found = append(found, m[1])
		}
		m := heading.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		slug := slugOf(m[1])
		if n := times[slug]; n > 0 {
			found = append(found, slug+"-"+strconv.Itoa(n))
		} else {
			found = append(found, slug)
		}
		times[slug]++
	}
	return found
}

func slugOf(title string) string {
	title = link.ReplaceAllString(title, "]")
	var b strings.Builder
	for _, r := range strings.ToLower(title) {
		switch {
		case unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-' || r == '_':
			b.WriteRune(r)
		case r == ' ':
			b.WriteByte('-')
		}
	}
	return b.String()
}

func TestLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	for _, page := range pages(t) {
		for i, line := range prose(t, page) {
			for _, m := range link.FindAllStringSubmatch(inlineCode.ReplaceAllString(line, ""), -1) {
				target, fragment, _ := strings.Cut(m[1], "#")
				if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
					continue // other people's pages
				}
				file := page
				if target != "" {
					file = filepath.Join(filepath.Dir(page), filepath.FromSlash(target))
				}
				if _, err := os.Stat(file); err != nil {
					t.Errorf("%s:%d: link to %s: %v", page, i+1, m[1], err)
					continue
				}
				if fragment != "" && filepath.Ext(file) == ".md" && !slices.Contains(anchors(t, file), fragment) {
					t.Errorf("%s:%d: link to %s: no such heading; there are %v", page, i+1, m[1], anchors(t, file))
				}
			}
		}
	}
}

// Commands that pages show are typed by people.
func TestMakeTargetsExist(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range makeTarget.FindAllStringSubmatch(string(text), -1) {
			if !regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(m[1]) + `:`).Match(b) {
				t.Errorf("%s names make %s, which the Makefile does not have", page, m[1])
			}
		}
	}
}

// Every target says what it does, since the list is all the help there is.
func TestMakeTargetsHaveHelp(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	phony := regexp.MustCompile(`(?m)^\.PHONY: (\S+)$`).FindAllStringSubmatch(string(b), -1)
	if len(phony) == 0 {
		t.Fatal("found no targets")
	}
	for _, m := range phony {
		if !regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(m[1]) + `:.*## \S`).Match(b) {
			t.Errorf("target %s has no ## comment", m[1])
		}
	}
}
