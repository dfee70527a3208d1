package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// parse makes a configuration out of the given secrets and local block.
func parse(t *testing.T, dir, secrets, block string) *Config {
	t.Helper()
	y := base
	if block != "" {
		y += "    local: " + block + "\n"
	}
	c, err := Parse([]byte(y+"secrets: "+secrets+"\n"), filepath.Join(dir, "c.yaml"), testOptions)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestSecretIsReadByteForByteAndTokenIsTrimmed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := parse(t, dir, "{a: {file: a}}", "")
	for _, content := range []string{"#cloud-config\npassword: x\n\n", "\r\n token \t\r\n", "no newline"} {
		write(t, filepath.Join(dir, "a"), content)
		s, err := c.Secret(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		if string(s.Reveal()) != content {
			t.Errorf("secret = %q, want %q", s.Reveal(), content)
		}
		tok, err := c.Token(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		if want := strings.TrimSpace(content); string(tok.Reveal()) != want {
			t.Errorf("token = %q, want %q", tok.Reveal(), want)
		}
	}
}

func TestSecretFromEnvironment(t *testing.T) {
	t.Setenv("TOLLGATE_TEST_SECRET", "s3cret\n")
	c := parse(t, t.TempDir(), "{a: {env: TOLLGATE_TEST_SECRET}}", "")
	s, err := c.Secret(t.Context(), "a")
	if err != nil || string(s.Reveal()) != "s3cret\n" {
		t.Errorf("got %q, %v", s.Reveal(), err)
	}
}

func TestSecretErrorsNameTheReferenceAndTheSource(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "empty"), "")
	write(t, filepath.Join(dir, "blank"), " \n")
	write(t, filepath.Join(dir, "big"), strings.Repeat("x", maxSecret+1))
	c := parse(t, dir, "{empty: {file: empty}, blank: {file: blank}, big: {file: big}, none: {file: none}, env: {env: TOLLGATE_TEST_UNSET}}", "")
	for name, want := range map[string]string{
		"empty": `secret "empty": file ` + filepath.Join(dir, "empty") + " is empty",
		"blank": `secret "blank": file ` + filepath.Join(dir, "blank") + " holds only white space",
		"big":   `secret "big": ` + filepath.Join(dir, "big") + " has more than 1048576 bytes, which is the limit",
		"none":  `secret "none": open ` + filepath.Join(dir, "none") + ": no such file or directory",
		"env":   `secret "env": environment variable TOLLGATE_TEST_UNSET is not set`,
		"other": `secret "other": no such secret: secrets in ` + filepath.Join(dir, "c.yaml") + " defines big, blank, empty, env, none",
	} {
		_, err := c.Token(t.Context(), name)
		if err == nil || err.Error() != want {
			t.Errorf("Token(%s) = %v, want %s", name, err, want)
		}
		if got := errors.Is(err, ErrUnknownSecret); got != (name == "other") {
			t.Errorf("%s: errors.Is(ErrUnknownSecret) = %v", name, got)
		}
	}
}

func TestSecretIsNotPrinted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a"), "SENTINEL")
	c := parse(t, dir, "{a: {file: a}}", "")
	s, err := c.Token(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if out := fmt.Sprintf("%v %+v %#v %s", s, c, c, c.ProviderHash(c.Providers[0], []byte("k"))); strings.Contains(out, "SENTINEL") {
		t.Errorf("printed: %s", out)
	}
}

func TestProviderHash(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a := filepath.Join(dir, "a")
	write(t, a, "one")
	hash := func(secrets, block, key string) string {
		c := parse(t, dir, secrets, block)
		return c.ProviderHash(c.Providers[0], []byte(key))
	}
	first := hash("{a: {file: a}}", "{x: 1, y: 2}", "k")
	if again := hash("{a: {file: a}}", "{y: 2, x: 1} # other order", "k"); again != first {
		t.Error("the hash depends on the order of keys or on comments")
	}
	for what, other := range map[string]string{
		"another key":        hash("{a: {file: a}}", "{x: 1, y: 2}", "k2"),
		"another block":      hash("{a: {file: a}}", "{x: 1, y: 3}", "k"),
		"another secret":     hash("{b: {file: a}}", "{x: 1, y: 2}", "k"),
		"a secret more":      hash("{a: {file: a}, b: {file: b}}", "{x: 1, y: 2}", "k"),
		"no secret":          hash("{}", "{x: 1, y: 2}", "k"),
		"an absent block":    hash("{a: {file: a}}", "", "k"),
		"an unreadable file": hash("{a: {file: none}}", "{x: 1, y: 2}", "k"),
	} {
		if other == first {
			t.Errorf("%s: the hash is the same", what)
		}
	}
	write(t, a, "two")
	if hash("{a: {file: a}}", "{x: 1, y: 2}", "k") == first {
		t.Error("the hash does not depend on the contents of a secret")
	}
	write(t, a, "one")
	if hash("{a: {file: a}}", "{x: 1, y: 2}", "k") != first {
		t.Error("the hash is not a function of the contents")
	}
}
