package providertest

import (
	"github.com/tollgate-dev/tollgate/internal/provider"
)

// strangers are the owners whose instance with our name is never taken over.
func adoptionClauses() []Clause {
	const why = "Taking over what is somebody else's means deleting it one day."
	return []Clause{
		{
			ID: "PC-12", Slug: "create-other-spec", Section: secCreate,
			Title: "A name made for another spec is a Conflict",
			Rule:  "Create with the name and owner of an existing instance and another spec hash gives Conflict and changes nothing.",
			Why:   "Returning the old instance would report a change as done that never happened.",
			check: func(e *env) {
				p, req := e.provider(), e.request()
				e.create(p, req)
				req.Marks.SpecHash = "spec-b"
				e.wantConflict(p, req)
			},
		},
		{
			ID: "PC-13", Slug: "create-foreign-uid", Section: secCreate,
			Title: "A name taken by another owner is a Conflict",
			Rule:  "Create with the name of an instance that carries another uid gives Conflict and changes nothing.",
			Why:   why, Needs: []Hook{HookPlace},
			check: func(e *env) {
				req := e.request()
				marks := req.Marks
				marks.UID = "somebody-else"
				e.place(req.Name, marks, true)
				e.wantConflict(e.provider(), req)
			},
		},
		{
			ID: "PC-14", Slug: "create-foreign-installation", Section: secCreate,
			Title: "A name taken by another installation is a Conflict",
			Rule:  "Create with the name and uid of an instance that carries another installation gives Conflict and changes nothing.",
			Why:   why, Needs: []Hook{HookPlace},
			check: func(e *env) {
				req := e.request()
				marks := req.Marks
				marks.Installation = otherInstallation
				e.place(req.Name, marks, true)
				e.wantConflict(e.provider(), req)
			},
		},
		{
			ID: "PC-15", Slug: "create-unmarked", Section: secCreate,
			Title: "A name taken by an unmarked instance is a Conflict",
			Rule:  "Create with the name of an instance without the managed mark gives Conflict and changes nothing.",
			Why:   why, Needs: []Hook{HookPlace},
			check: func(e *env) {
				req := e.request()
				e.place(req.Name, provider.Marks{}, false)
				e.wantConflict(e.provider(), req)
			},
		},
		{
			ID: "PC-16", Slug: "find-foreign", Section: secGet,
			Title: "Find never returns what is not ours",
			Rule:  "Find of a name that is taken by another uid, another installation or an unmarked instance gives Conflict and a zero instance.",
			Why:   "Find is what a clean-up deletes by.", Needs: []Hook{HookPlace},
			check: func(e *env) {
				p := e.provider()
				for what, change := range map[string]func(*provider.Marks) bool{
					"another uid":          func(m *provider.Marks) bool { m.UID = "somebody-else"; return true },
					"another installation": func(m *provider.Marks) bool { m.Installation = otherInstallation; return true },
					"no mark":              func(m *provider.Marks) bool { *m = provider.Marks{}; return false },
				} {
					req := e.request()
					marks := req.Marks
					managed := change(&marks)
					e.place(req.Name, marks, managed)
					in, err := p.Find(e.ctx(), req.Name, req.Marks)
					e.wantClass("find of a name with "+what, err, provider.Conflict)
					if in != (provider.Instance{}) {
						e.Errorf("find of a name with %s gives the instance %+v", what, in)
					}
				}
			},
		},
	}
}

// wantConflict checks that a create is refused and that nothing has changed,
// what the driver makes beside the instance included.
func (e *env) wantConflict(p provider.Provider, req provider.CreateRequest) {
	e.Helper()
	before := e.b.Things(e)
	id, err := p.Create(e.ctx(), req)
	e.wantClass("create", err, provider.Conflict)
	if id != "" {
		e.Errorf("create gives the id %q beside the error", id)
	}
	e.wantUnchanged(before, "a create that met a conflict")
}
