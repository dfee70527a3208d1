//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// docLines are the shell lines of a page, by section. Tests run them as they
// stand, and every one of them has to be run.
type docLines struct {
	t        testing.TB
	page     string
	sections []string
	lines    map[string][]string
	ran      map[string]bool
	// shell runs one line, after those that set variables.
	shell func(line string) result
}

var sectionHead = regexp.MustCompile(`^## (.*)$`)

// readDocLines reads the blocks of sh in a page. Continued lines are one.
func readDocLines(t testing.TB, page string) *docLines {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(page)))
	if err != nil {
		t.Fatal(err)
	}
	d := &docLines{t: t, page: page, lines: map[string][]string{}, ran: map[string]bool{}}
	section, inBlock, line := "", false, ""
	for raw := range strings.Lines(string(b)) {
		raw = strings.TrimRight(raw, "\n")
		m := sectionHead.FindStringSubmatch(raw)
		switch {
		case !inBlock && m != nil:
			section = m[1]
			d.sections = append(d.sections, section)
		case raw == "```sh":
			inBlock = true
		case raw == "```":
			inBlock = false
		case !inBlock || strings.TrimSpace(raw) == "":
		case strings.HasSuffix(raw, `\`):
			line += raw + "\n"
		default:
			d.lines[section] = append(d.lines[section], line+raw)
			line = ""
		}
	}
	if len(d.lines) == 0 {
		t.Fatalf("%s has no blocks of sh", page)
	}
	return d
}

// variables are the lines that only set variables, which all others need.
func (d *docLines) variables(sections ...string) (lines []string) {
	d.t.Helper()
	for _, s := range sections {
		if len(d.lines[s]) == 0 {
			d.t.Fatalf("%s has no lines in section %q", d.page, s)
		}
		for i, l := range d.lines[s] {
			if !strings.HasPrefix(l, "export ") && !strings.HasPrefix(l, "TOKEN=") {
				d.t.Fatalf("%s, %s: %q sets no variable", d.page, s, l)
			}
			d.ran[fmt.Sprint(s, i)] = true
			lines = append(lines, l)
		}
	}
	return lines
}

// run runs the n-th line of a section, from 1, which has to be of that tool.
func (d *docLines) run(section, tool string, n int) result {
	d.t.Helper()
	if n > len(d.lines[section]) {
		d.t.Fatalf("%s, %s: there is no line %d", d.page, section, n)
	}
	line := d.lines[section][n-1]
	if !strings.HasPrefix(line, tool+" ") {
		d.t.Fatalf("%s, %s: line %d is %q, want one of %s", d.page, section, n, line, tool)
	}
	d.ran[fmt.Sprint(section, n-1)] = true
	r := d.shell(line)
	r.line = fmt.Sprintf("%s, %s, line %d: %s", d.page, section, n, line)
	return r
}

// complete fails the test if a line was never run.
func (d *docLines) complete() {
	d.t.Helper()
	for _, s := range d.sections {
		for i, l := range d.lines[s] {
			if !d.ran[fmt.Sprint(s, i)] {
				d.t.Errorf("%s, %s: line %d was not tested: %s", d.page, s, i+1, l)
			}
		}
	}
}

// docShell runs a line of a page in a directory, against this world, with the
// built programs and a home of its own.
func (w *world) docShell(dir string, before []string) func(string) result {
	home := w.t.TempDir()
	here := strings.NewReplacer("127.0.0.1:7233", w.engine.HostPort(), "127.0.0.1:7280", w.http)
	return func(line string) result {
		w.t.Helper()
		cmd := exec.Command("bash", "-e", "-o", "pipefail", "-c", here.Replace(strings.Join(append(before, line), "\n")))
		cmd.Dir = dir
		cmd.Env = append(cleanEnv(), "HOME="+home, "XDG_CONFIG_HOME="+home, "PATH="+filepath.Dir(bins(w.t, "temporal"))+":"+os.Getenv("PATH"))
		return runProgram(w.t, cmd)
	}
}
