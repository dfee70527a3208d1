package kubernetes

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// problems collects what is wrong with a configuration.
type problems []error

func (c *problems) bad(format string, args ...any) { *c = append(*c, fmt.Errorf(format, args...)) }

// join is one error for all, in a stable order.
func (c problems) join() error {
	slices.SortStableFunc(c, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(c...)
}

func (c *problems) name(field, value string) {
	if err := provider.ValidateName(field, value); err != nil {
		c.bad("%w", err)
	}
}

func (c *problems) oneOf(field, value string, allowed ...string) {
	if !slices.Contains(allowed, value) {
		allowed = slices.DeleteFunc(slices.Clone(allowed), func(s string) bool { return s == "" })
		c.bad("%s: %q: want one of %s", field, value, strings.Join(allowed, ", "))
	}
}

func (c *problems) between(field string, d, least, most time.Duration) {
	if d < least || d > most {
		c.bad("%s: %v: want %v to %v", field, d, least, most)
	}
}

func (c *problems) rule(field, value string, wrong []string) {
	if len(wrong) > 0 {
		c.bad("%s: %q: %s", field, value, strings.Join(wrong, "; "))
	}
}

func (c *problems) objectName(field, value string) {
	c.rule(field, value, validation.IsDNS1123Subdomain(value))
}

func (c *problems) envName(field, value string) {
	c.rule(field, value, validation.IsEnvVarName(value))
}

func (c *problems) labelValue(field, value string) {
	c.rule(field, value, validation.IsValidLabelValue(value))
}

func (c *problems) labels(field string, m map[string]string) {
	for k, v := range m {
		c.key(field, k)
		c.labelValue(field+"."+k, v)
	}
}

func (c *problems) annotations(field string, m map[string]string) {
	for k := range m {
		c.key(field, k)
	}
}

func (c *problems) key(field, k string) {
	c.rule(field, k, validation.IsQualifiedName(k))
	if strings.HasPrefix(k, ourLabels) || k == labelApp || k == labelManager {
		c.bad("%s: %q is set by Tollgate", field, k)
	}
}

func (c *problems) image(field, value string) {
	if err := checkImage(value); err != nil {
		c.bad("%s: %w", field, err)
	}
}

// checkImage refuses what no image reference can be. The rest is the node's
// affair: it alone can tell whether there is such an image.
func checkImage(value string) error {
	if value == "" || len(value) > 512 || strings.Contains(value, "://") || strings.ContainsFunc(value, func(r rune) bool {
		return unicode.IsSpace(r) || r > unicode.MaxASCII || !unicode.IsPrint(r)
	}) {
		return fmt.Errorf("%q is no image: want one such as registry.example.org/proxy:1.2", value)
	}
	return nil
}

func (c *problems) resources(field string, r Resources) corev1.ResourceRequirements {
	out := corev1.ResourceRequirements{Requests: c.quantities(field+".requests", r.Requests), Limits: c.quantities(field+".limits", r.Limits)}
	for name, want := range out.Requests {
		if limit, ok := out.Limits[name]; ok && want.Cmp(limit) > 0 {
			c.bad("%s.requests.%s: %q: want at most the limit, %q", field, name, want.String(), limit.String())
		}
	}
	return out
}

func (c *problems) quantities(field string, m map[string]string) corev1.ResourceList {
	if len(m) == 0 {
		return nil
	}
	out := corev1.ResourceList{}
	for k, v := range m {
		c.rule(field, k, validation.IsQualifiedName(k))
		q, err := resource.ParseQuantity(v)
		if err != nil || q.Sign() < 0 {
			c.bad("%s.%s: %q is no quantity: want one such as 100m or 128Mi", field, k, v)
			continue
		}
		out[corev1.ResourceName(k)] = q
	}
	return out
}
