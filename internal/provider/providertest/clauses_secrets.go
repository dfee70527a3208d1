package providertest

import (
	"encoding/base64"
	"fmt"
	"strings"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

func secretClauses() []Clause {
	return []Clause{
		{
			ID: "PC-55", Slug: "no-secret-in-errors", Section: secSecrets,
			Title: "No secret is in an error",
			Rule: "Credentials, cloud-init and passwords, plain or base64, are in no text of an error, of anything it wraps or of a health check, " +
				"even when the backend's own message repeats them.",
			Why: "Errors are stored in histories, shown in a web page and sent to chat rooms.",
			check: func(e *env) {
				for _, text := range e.secretScenario() {
					e.wantNoSecret("an error", text)
				}
			},
		},
		{
			ID: "PC-56", Slug: "no-secret-in-logs", Section: secSecrets,
			Title: "No secret is in the log",
			Rule:  "Credentials, cloud-init and passwords are in no log record of the driver, at any level, whatever happens.",
			Why:   "Logs are copied to places with other readers.",
			check: func(e *env) {
				e.secretScenario()
				for line := range strings.Lines(e.logs.String()) {
					e.wantNoSecret("a log record", line)
				}
			},
		},
	}
}

// secretScenario makes everything happen that makes drivers talk, and returns
// the texts of all errors.
func (e *env) secretScenario() []string {
	var texts []string
	note := func(err error) {
		walk(err, func(err error) { texts = append(texts, err.Error(), fmt.Sprintf("%+v", err)) })
	}
	p, req := e.provider(), e.request()
	req.Auth = &provider.BasicAuth{Username: "kit", Password: provider.NewSensitive([]byte(e.secret))}
	id := e.create(p, req)
	other := req
	other.Marks.SpecHash = "spec-b"
	_, err := p.Create(e.ctx(), other)
	note(err)
	_, err = p.Get(e.ctx(), "no/such/thing/at/all")
	note(err)
	in := e.get(p, id)
	if f, ok := e.b.(Faulter); ok {
		// What a backend can repeat is what it was sent: the credential always, the
		// body in a create.
		withToken := fmt.Sprintf("the request had the token %q (%s)", e.cred, base64.StdEncoding.EncodeToString([]byte(e.cred)))
		withBody := fmt.Sprintf("%s and the body %q (%s)", withToken, req.CloudInit.Reveal(), base64.StdEncoding.EncodeToString(req.CloudInit.Reveal()))
		for _, kind := range []FaultKind{FaultUnauthorized, FaultForbidden, FaultInvalid, FaultThrottled, FaultInternal, FaultTruncated} {
			heal := e.undo(f.Inject(e, Fault{Kind: kind, Echo: withBody, RetryAfter: time.Second}))
			fresh := e.request()
			fresh.CloudInit, fresh.Auth = req.CloudInit, req.Auth
			_, err := p.Create(e.ctx(), fresh)
			note(err)
			heal()
			heal = e.undo(f.Inject(e, Fault{Kind: kind, Echo: withToken, RetryAfter: time.Second}))
			for _, op := range e.ops(p, in, fresh) {
				if op.name != provider.OpCreate {
					note(op.call(e.ctx()))
				}
			}
			if c, ok := provider.As[provider.Checker](p); ok {
				for _, st := range c.Check(e.ctx()) {
					texts = append(texts, fmt.Sprintf("%+v", st))
				}
			}
			heal()
		}
	}
	e.remove(p, id)
	return texts
}

// walk visits err and everything it wraps.
func walk(err error, visit func(error)) {
	if err == nil {
		return
	}
	visit(err)
	switch u := err.(type) {
	case interface{ Unwrap() error }:
		walk(u.Unwrap(), visit)
	case interface{ Unwrap() []error }:
		for _, err := range u.Unwrap() {
			walk(err, visit)
		}
	}
}

func (e *env) wantNoSecret(where, text string) {
	e.Helper()
	for what, secret := range map[string]string{"the credential": e.cred, "cloud-init": "#cloud-config\n# " + e.secret} {
		encoded := base64.StdEncoding.EncodeToString([]byte(secret))
		plain := secret[strings.LastIndexByte(secret, ' ')+1:]
		for _, form := range []string{plain, encoded[:len(encoded)-4]} {
			if strings.Contains(text, form) {
				e.Errorf("%s holds %s: %s", where, what, strings.ReplaceAll(text, form, "<"+what+">"))
			}
		}
	}
}
