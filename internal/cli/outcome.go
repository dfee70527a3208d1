package cli

import (
	"context"

	"github.com/tollgate-dev/tollgate/workflows/api"
)

// What became of a document or of an update.
const (
	actionCreated     = "created"
	actionChanged     = "changed"
	actionUnchanged   = "unchanged"
	actionWouldCreate = "would be created"
	actionWouldChange = "would change"
)

// outcome is what a command did to one proxy, or with --dry-run would do.
type outcome struct {
	Namespace  string   `json:"namespace"`
	Name       string   `json:"name"`
	Action     string   `json:"action"`
	Generation int64    `json:"generation,omitempty"`
	Changes    []change `json:"changes,omitempty"`
}

func (o outcome) object() object { return object{o.Namespace, o.Name} }

// tell prints an outcome for people.
func (a *app) tell(o outcome) {
	if o.Action == actionChanged {
		a.say("%s: %s, generation %d", o.object(), o.Action, o.Generation)
	} else {
		a.say("%s: %s", o.object(), o.Action)
	}
	writeChanges(a.human(), o.Changes)
}

// printDocument prints v where a document is asked for; people were told
// already.
func (a *app) printDocument(v any) error {
	if a.output.value != formatJSON && a.output.value != formatYAML {
		return nil
	}
	return a.print(v, nil)
}

// change makes a running proxy what is wanted. keepLabels leaves the labels as
// they are.
func (s *session) change(ctx context.Context, o object, old, wanted api.Proxy, keepLabels, dryRun bool) (outcome, error) {
	out := outcome{Namespace: o.namespace, Name: o.name, Action: actionUnchanged, Generation: old.Metadata.Generation,
		Changes: changes(old, wanted, keepLabels)}
	if len(out.Changes) == 0 {
		return out, nil
	}
	out.Action = actionWouldChange
	if dryRun {
		return out, nil
	}
	in := api.SetSpecInput{Spec: wanted.Spec}
	if !keepLabels {
		in.Labels = wanted.Metadata.Labels
		if in.Labels == nil {
			in.Labels = map[string]string{}
		}
	}
	r, err := s.setSpec(ctx, o, in)
	if err != nil {
		return out, err
	}
	out.Action, out.Generation = actionChanged, r.Generation
	// Of a secret only the workflow knows whether it is another one.
	if r.Unchanged && len(out.Changes) == 1 && out.Changes[0].Unknown {
		out.Action, out.Changes = actionUnchanged, nil
	}
	return out, nil
}
