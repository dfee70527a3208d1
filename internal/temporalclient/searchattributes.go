package temporalclient

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/tollgate-dev/tollgate/workflows"
)

// searchAttributesTimeout bounds the registration, races and propagation
// included.
const searchAttributesTimeout = 30 * time.Second

// SearchAttribute is one that a namespace must have.
type SearchAttribute struct {
	Name string
	Type enumspb.IndexedValueType
}

// SearchAttributesError says that a namespace lacks search attributes that
// Tollgate's workflows set, and what to run.
type SearchAttributesError struct {
	Namespace string
	Missing   []SearchAttribute
	// Err is why they could not be registered; nil when nobody tried.
	Err error
}

func (e *SearchAttributesError) Error() string {
	var b strings.Builder
	names := make([]string, len(e.Missing))
	for i, a := range e.Missing {
		names[i] = a.Name
	}
	fmt.Fprintf(&b, "namespace %q lacks the search attributes %s", e.Namespace, strings.Join(names, ", "))
	if e.Err != nil {
		fmt.Fprintf(&b, " and they could not be registered (%v)", e.Err)
	}
	b.WriteString("; run once:")
	for _, line := range e.Commands() {
		b.WriteString("\n  " + line)
	}
	return b.String()
}

func (e *SearchAttributesError) Unwrap() error { return e.Err }

// Commands returns what to run to register what is missing, a line each.
func (e *SearchAttributesError) Commands() []string {
	lines := make([]string, len(e.Missing))
	for i, a := range e.Missing {
		lines[i] = fmt.Sprintf("temporal operator search-attribute create --namespace %s --name %s --type %s", e.Namespace, a.Name, a.Type)
	}
	return lines
}

// EnsureSearchAttributes registers what workflows.SearchAttributes lists and the
// namespace lacks, and returns when it can be used. Several processes may do so
// at once. The error is a SearchAttributesError when we may not register.
func EnsureSearchAttributes(ctx context.Context, c *Connection) error {
	ctx, cancel := context.WithTimeout(ctx, searchAttributesTimeout)
	defer cancel()
	added := false
	for {
		missing, err := missingSearchAttributes(ctx, c)
		if err != nil {
			return err
		}
		if len(missing) == 0 {
			if added {
				return awaitSearchAttributes(ctx, c)
			}
			return nil
		}
		err = addSearchAttributes(ctx, c, missing)
		added = added || err == nil
		if err != nil && !worthRetrying(err) || ctx.Err() != nil {
			return &SearchAttributesError{Namespace: c.Namespace, Missing: missing, Err: err}
		}
		if err != nil {
			// Somebody else registers at this moment. Not in step with them.
			pause(ctx, 50*time.Millisecond+rand.N(100*time.Millisecond))
		}
	}
}

// CheckSearchAttributes looks and registers nothing. The error is a
// SearchAttributesError when some are missing.
func CheckSearchAttributes(ctx context.Context, c *Connection) error {
	ctx, cancel := context.WithTimeout(ctx, searchAttributesTimeout)
	defer cancel()
	missing, err := missingSearchAttributes(ctx, c)
	if err == nil && len(missing) > 0 {
		err = &SearchAttributesError{Namespace: c.Namespace, Missing: missing}
	}
	return err
}

// missingSearchAttributes fails when one exists with another type: only a person
// can tell whether that one may go.
func missingSearchAttributes(ctx context.Context, c *Connection) ([]SearchAttribute, error) {
	have, err := listSearchAttributes(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("list the search attributes of namespace %q: %w", c.Namespace, err)
	}
	var missing []SearchAttribute
	var wrong []string
	for _, key := range workflows.SearchAttributes() {
		want := SearchAttribute{Name: key.GetName(), Type: key.GetValueType()}
		switch got, ok := have[want.Name]; {
		case !ok:
			missing = append(missing, want)
		case got != want.Type:
			wrong = append(wrong, fmt.Sprintf("%s is %s, want %s", want.Name, got, want.Type))
		}
	}
	if len(wrong) > 0 {
		return nil, fmt.Errorf("namespace %q has search attributes of another type: %s; remove them with "+
			"`temporal operator search-attribute remove` or use another namespace", c.Namespace, strings.Join(wrong, "; "))
	}
	return missing, nil
}

func listSearchAttributes(ctx context.Context, c *Connection) (map[string]enumspb.IndexedValueType, error) {
	resp, err := c.Client.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: c.Namespace})
	if err == nil {
		return resp.GetCustomAttributes(), nil
	}
	if !forbidden(err) {
		return nil, err
	}
	// Where the operator service is closed, the workflow service may tell.
	all, err2 := c.Client.WorkflowService().GetSearchAttributes(ctx, &workflowservice.GetSearchAttributesRequest{})
	if err2 != nil {
		return nil, err
	}
	return all.GetKeys(), nil
}

func addSearchAttributes(ctx context.Context, c *Connection, missing []SearchAttribute) error {
	add := map[string]enumspb.IndexedValueType{}
	for _, a := range missing {
		add[a.Name] = a.Type
	}
	_, err := c.Client.OperatorService().AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{
		Namespace: c.Namespace, SearchAttributes: add,
	})
	return err
}

// awaitSearchAttributes waits until the server accepts them: its caches follow a
// registration after a moment.
func awaitSearchAttributes(ctx context.Context, c *Connection) error {
	var terms []string
	for _, key := range workflows.SearchAttributes() {
		terms = append(terms, key.GetName()+" IS NOT NULL")
	}
	req := &workflowservice.CountWorkflowExecutionsRequest{Namespace: c.Namespace, Query: strings.Join(terms, " AND ")}
	for {
		_, err := c.Client.WorkflowService().CountWorkflowExecutions(ctx, req)
		if invalid := new(serviceerror.InvalidArgument); err == nil || !errors.As(err, &invalid) && !worthRetrying(err) {
			return nil // what else is wrong is not about search attributes
		}
		if !pause(ctx, 100*time.Millisecond) {
			return fmt.Errorf("namespace %q does not accept its new search attributes yet: %w", c.Namespace, err)
		}
	}
}

// forbidden reports whether the server does not let us, now or later.
func forbidden(err error) bool {
	var denied *serviceerror.PermissionDenied
	var unimplemented *serviceerror.Unimplemented
	return errors.As(err, &denied) || errors.As(err, &unimplemented) || isUnauthenticated(err)
}

// worthRetrying is true for what a race or a busy server answers.
func worthRetrying(err error) bool {
	var (
		exists      *serviceerror.AlreadyExists
		unavailable *serviceerror.Unavailable
		aborted     *serviceerror.Aborted
		exhausted   *serviceerror.ResourceExhausted
	)
	return errors.As(err, &exists) || errors.As(err, &unavailable) || errors.As(err, &aborted) || errors.As(err, &exhausted)
}

func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
