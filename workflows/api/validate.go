package api

import (
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// Defaults of a ProxySpec.
const (
	DefaultPort              = 3128
	DefaultNeverHealthyAfter = 10 * time.Minute
	// RedactedInline stands in for an inline secret wherever a spec is shown.
	// A spec that is applied with it keeps the value it has.
	RedactedInline = provider.Redacted
)

// WithDefaults fills the fields that were left out.
func (s ProxySpec) WithDefaults() ProxySpec {
	if s.Port == 0 {
		s.Port = DefaultPort
	}
	if s.Replacement == "" {
		s.Replacement = Recreate
	}
	if s.NeverHealthyAfter == 0 {
		s.NeverHealthyAfter = Duration(DefaultNeverHealthyAfter)
	}
	return s
}

// Redact replaces the inline secret by RedactedInline.
func (s ProxySpec) Redact() ProxySpec {
	if s.CloudInit != nil && s.CloudInit.Inline != "" {
		s.CloudInit = &SecretSource{Inline: RedactedInline}
	}
	return s
}

// KeepInline puts the inline secret of old where s has only RedactedInline.
func (s ProxySpec) KeepInline(old ProxySpec) ProxySpec {
	if s.CloudInit != nil && s.CloudInit.Inline == RedactedInline && old.CloudInit != nil {
		s.CloudInit = old.CloudInit
	}
	return s
}

// Equal reports whether two specs are the same.
func (s ProxySpec) Equal(o ProxySpec) bool { return reflect.DeepEqual(s, o) }

// Validate checks everything that can be told without the provider. Each
// problem names the field, the value and what is allowed; all are reported.
func (s ProxySpec) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if s.Provider == "" {
		bad("spec.provider: is required: the name of a configured provider (tollgate providers list)")
	} else if err := provider.ValidateName("spec.provider", s.Provider); err != nil {
		errs = append(errs, err)
	}
	if s.Port < 0 || s.Port > 65535 {
		bad("spec.port: %d is not a TCP port: use 1 to 65535, or leave it out for %d", s.Port, DefaultPort)
	}
	switch s.Replacement {
	case "", Recreate, CreateBeforeDelete:
	default:
		bad("spec.replacement: %q is unknown: use %s or %s", s.Replacement, Recreate, CreateBeforeDelete)
	}
	if d := s.NeverHealthyAfter.Std(); d != 0 && (d < time.Second || d > 24*time.Hour) {
		bad("spec.neverHealthyAfter: %s is out of range: use 1s to 24h, or leave it out for %s", d, DefaultNeverHealthyAfter)
	}
	if c := s.CloudInit; c != nil {
		errs = append(errs, c.validate("spec.cloudInit"))
	}
	if a := s.Auth; a != nil {
		if a.Inline != "" {
			bad("spec.auth.inline: is not allowed: put username:password into the workers' secrets and name it in spec.auth.secretRef")
		} else {
			errs = append(errs, a.validate("spec.auth"))
		}
	}
	return errors.Join(errs...)
}

func (s SecretSource) validate(field string) error {
	switch {
	case s.Inline == "" && s.SecretRef == "":
		return fmt.Errorf("%s: one of inline and secretRef is required", field)
	case s.Inline != "" && s.SecretRef != "":
		return fmt.Errorf("%s: inline and secretRef are both set: use one", field)
	case s.SecretRef != "":
		return provider.ValidateName(field+".secretRef", s.SecretRef)
	}
	return nil
}

// ValidateLabels checks keys and values: 1 to 63 characters (values may be
// empty) of letters, digits, '-', '_', '.' and, in keys, '/'.
func ValidateLabels(field string, labels map[string]string) error {
	var errs []error
	ok := func(s string, slash bool) bool {
		for _, r := range s {
			if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.' || slash && r == '/') {
				return false
			}
		}
		return len(s) <= 63
	}
	for k, v := range labels {
		if k == "" || !ok(k, true) {
			errs = append(errs, fmt.Errorf("%s: key %q: use 1 to 63 of letters, digits, '-', '_', '.' and '/'", field, k))
		}
		if !ok(v, false) {
			errs = append(errs, fmt.Errorf("%s[%s]: value %q: use up to 63 of letters, digits, '-', '_' and '.'", field, k, v))
		}
	}
	return errors.Join(errs...)
}

// ValidateChange checks what may not change from old to s.
func (s ProxySpec) ValidateChange(old ProxySpec) error {
	if s.Provider != old.Provider {
		return fmt.Errorf("spec.provider: cannot be changed from %q to %q: delete the proxy and create it anew", old.Provider, s.Provider)
	}
	return nil
}
