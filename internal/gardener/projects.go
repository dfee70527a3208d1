package gardener

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	corev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LabelProject is the label of a namespace that names its project.
const LabelProject = "project.gardener.cloud/name"

// ErrNoProject is what a namespace gives that belongs to no project.
var ErrNoProject = errors.New("the namespace belongs to no project")

const (
	// manyNamespaces is from how many unknown namespaces on all projects are listed
	// instead of one namespace after the other being read.
	manyNamespaces = 4
	listLimit      = 500
)

// ProjectNames finds the project of a namespace: from the label of the namespace
// or from the project's spec, and never from the namespace's name, which need not
// hold it. What was found is remembered, because a project never changes its
// namespace. It is safe for concurrent use.
type ProjectNames struct {
	conn *Connection

	mu    sync.RWMutex
	known map[string]string
}

// NewProjectNames knows nothing yet.
func NewProjectNames(c *Connection) *ProjectNames {
	return &ProjectNames{conn: c, known: map[string]string{}}
}

// Name is the project of a namespace, or ErrNoProject.
func (p *ProjectNames) Name(ctx context.Context, namespace string) (string, error) {
	found, err := p.Names(ctx, namespace)
	if err != nil {
		return "", err
	}
	name, ok := found[namespace]
	if !ok {
		return "", fmt.Errorf("namespace %q: %w", namespace, ErrNoProject)
	}
	return name, nil
}

// Names are the projects of namespaces. Those that belong to none are missing.
func (p *ProjectNames) Names(ctx context.Context, namespaces ...string) (map[string]string, error) {
	found, missing := p.lookUp(namespaces)
	if len(missing) == 0 {
		return found, nil
	}
	client, err := p.conn.Client(ctx)
	if err != nil {
		return nil, err
	}
	listed := false
	if len(missing) >= manyNamespaces {
		if listed, err = p.list(ctx, client); err != nil {
			return nil, err
		}
		found, missing = p.lookUp(namespaces)
	}
	for _, ns := range missing {
		name, err := label(ctx, client, ns)
		if err != nil && !forbidden(err) {
			return nil, err
		}
		if name == "" && !listed {
			denied := err
			if listed, err = p.list(ctx, client); err != nil {
				return nil, err
			}
			if !listed && denied != nil {
				return nil, denied // neither way is open: that says nothing about the namespace
			}
			known, _ := p.lookUp([]string{ns})
			name = known[ns]
		}
		if name != "" {
			found[ns] = name
			p.learn(map[string]string{ns: name})
		}
	}
	return found, nil
}

func (p *ProjectNames) lookUp(namespaces []string) (found map[string]string, missing []string) {
	found = make(map[string]string, len(namespaces))
	seen := make(map[string]bool, len(namespaces))
	p.mu.RLock()
	defer p.mu.RUnlock()
	for _, ns := range namespaces {
		if name, ok := p.known[ns]; ok {
			found[ns] = name
		} else if !seen[ns] {
			missing = append(missing, ns)
		}
		seen[ns] = true
	}
	return found, missing
}

func (p *ProjectNames) learn(m map[string]string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.Copy(p.known, m)
}

// list learns the namespaces of all projects. False means that this is forbidden:
// whoever sees one project only reads its namespace.
func (p *ProjectNames) list(ctx context.Context, c *Client) (bool, error) {
	all := map[string]string{}
	err := Each(ctx, c.Projects().List, metav1.ListOptions{}, func(l *corev1beta1.ProjectList) error {
		for i := range l.Items {
			// A project that is pending has no namespace yet.
			if ns := l.Items[i].Spec.Namespace; ns != nil && *ns != "" {
				all[*ns] = l.Items[i].Name
			}
		}
		return nil
	})
	if forbidden(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	p.learn(all)
	return true, nil
}

func label(ctx context.Context, c *Client, namespace string) (string, error) {
	ns, err := c.Namespaces().Get(ctx, namespace, metav1.GetOptions{})
	switch {
	case IsNotFound(err):
		return "", nil
	case err != nil:
		return "", err
	}
	return ns.Labels[LabelProject], nil
}

// forbidden tells a right that is lacking from an API server that does not know
// its callers yet.
func forbidden(err error) bool {
	return apierrors.IsForbidden(err) && !isAnonymous(err)
}

// Each hands all pages of a list to f, in order. A list that changes while it is
// read is read at one resourceVersion; one that takes longer than the API server
// keeps that version fails with an error that IsExpired.
func Each[L metav1.ListInterface](ctx context.Context, list func(context.Context, metav1.ListOptions) (L, error), o metav1.ListOptions, f func(L) error) error {
	if o.Limit == 0 {
		o.Limit = listLimit
	}
	for {
		l, err := list(ctx, o)
		if err != nil {
			return err
		}
		if err := f(l); err != nil {
			return err
		}
		if o.Continue = l.GetContinue(); o.Continue == "" {
			return nil
		}
		// The token holds the version.
		o.ResourceVersion, o.ResourceVersionMatch = "", ""
	}
}
