package provider

import (
	"encoding/base64"
	"errors"
	"net/url"
	"strconv"
	"strings"
)

// The lengths in bytes below which a text is not taken for a secret: replacing it would turn messages into confetti and protect nothing.
const (
	shortestSecret = 4
	shortestLine   = 8
)

// RedactText replaces every occurrence of the secrets in text by Redacted:
// plain, quoted as in JSON, base64 and URL-escaped, and of a secret with several
// lines each line, since backends quote the line they did not like.
func RedactText(text string, secrets ...Sensitive) string {
	for _, s := range secrets {
		plain := string(s.Reveal())
		if len(strings.TrimSpace(plain)) < shortestSecret {
			continue
		}
		for _, form := range []string{plain, strings.TrimSpace(plain)} {
			for _, f := range []string{
				form, unquoted(form), base64.StdEncoding.EncodeToString([]byte(form)),
				base64.RawURLEncoding.EncodeToString([]byte(form)), url.QueryEscape(form),
			} {
				text = strings.ReplaceAll(text, f, Redacted)
			}
		}
		if !strings.Contains(strings.TrimSpace(plain), "\n") {
			continue
		}
		for line := range strings.Lines(plain) {
			if line = strings.TrimSpace(line); len(line) >= shortestLine {
				text = strings.ReplaceAll(strings.ReplaceAll(text, line, Redacted), unquoted(line), Redacted)
			}
		}
	}
	return text
}

// unquoted is the inside of the quoted form of s.
func unquoted(s string) string {
	q := strconv.Quote(s)
	return q[1 : len(q)-1]
}

// RedactError returns err itself when its text holds none of the secrets, and
// otherwise an error with the redacted text. That one has no Unwrap, because
// whoever stores a chain of errors would store the secret; errors.Is still
// answers as err would.
func RedactError(err error, secrets ...Sensitive) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if clean := RedactText(text, secrets...); clean != text {
		return &redactedError{text: clean, is: err}
	}
	return err
}

type redactedError struct {
	text string
	is   error
}

func (e *redactedError) Error() string        { return e.text }
func (e *redactedError) Is(target error) bool { return errors.Is(e.is, target) }
