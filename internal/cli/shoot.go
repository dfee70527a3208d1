package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"

	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

const shootName = "PROJECT/NAME[/UID]"

func (a *app) shootCmd() *cobra.Command {
	c := group("shoot", "Show and steer the attribution of Gardener shoots",
		"A registration attributes the infrastructure tenant of one Gardener shoot to its\n"+
			"project at the Reporting API, from the shoot's creation to its deletion. Workers start\n"+
			"them for every shoot that a source reports. A shoot is PROJECT/NAME, and\n"+
			"PROJECT/NAME/UID where there are several of the name.",
		a.shootListCmd(), a.shootGetCmd(), a.shootRegisterCmd(), a.shootDeregisterCmd(), a.shootRetryCmd())
	c.Aliases = []string{"shoots"}
	return c
}

// shootRef is a shoot as it is typed; the uid may be left out.
type shootRef struct{ project, name, uid string }

func parseShoot(text string) (shootRef, error) {
	parts := strings.Split(text, "/")
	if len(parts) < 2 || len(parts) > 3 || slices.Contains(parts, "") {
		return shootRef{}, usage("%q is no shoot: use %s", text, shootName)
	}
	r := shootRef{project: parts[0], name: parts[1]}
	if len(parts) == 3 {
		r.uid = parts[2]
	}
	return r, nil
}

func (r shootRef) String() string {
	if r.uid == "" {
		return "shoot " + r.project + "/" + r.name
	}
	return "shoot " + r.project + "/" + r.name + "/" + r.uid
}

// shootFilter says which registrations are listed.
type shootFilter struct {
	project, source string
	phase, reason   string
	prefix          string // of the workflow id
}

// query is the filter in the words of Temporal's visibility.
func (f shootFilter) query() string {
	q := fmt.Sprintf("WorkflowType = '%s' AND ExecutionStatus = 'Running'", workflows.TypeShootRegistration)
	for _, t := range []struct{ key, op, value string }{
		{workflows.AttrNamespace.GetName(), "=", f.project}, {workflows.AttrSource.GetName(), "=", f.source}, {workflows.AttrPhase.GetName(), "=", f.phase},
		{workflows.AttrReason.GetName(), "=", f.reason}, {"WorkflowId", "STARTS_WITH", f.prefix},
	} {
		if t.value != "" {
			q += fmt.Sprintf(" AND %s %s '%s'", t.key, t.op, strings.ReplaceAll(t.value, "'", "''"))
		}
	}
	return q
}

// listedShoot is a registration as visibility knows it.
type listedShoot struct {
	shootRef
	phase, reason, tenant, source string
	since                         time.Time
}

func attribute(info *workflowpb.WorkflowExecutionInfo, name string) (v string) {
	if p, ok := info.GetSearchAttributes().GetIndexedFields()[name]; ok {
		_ = converter.GetDefaultDataConverter().FromPayload(p, &v) // for people: what cannot be read is not shown
	}
	return v
}

// shoots lists the registrations that run.
func (s *session) shoots(ctx context.Context, f shootFilter) ([]listedShoot, error) {
	var out []listedShoot
	req := &workflowservice.ListWorkflowExecutionsRequest{PageSize: pageSize, Query: f.query()}
	for {
		r, err := s.conn.Client.ListWorkflow(ctx, req)
		if err != nil {
			return nil, s.translate(ctx, "registrations", err)
		}
		for _, e := range r.GetExecutions() {
			id := e.GetExecution().GetWorkflowId()
			project, name, uid, err := workflows.ParseShootID(id)
			if err != nil || !strings.HasPrefix(id, f.prefix) {
				continue
			}
			out = append(out, listedShoot{shootRef: shootRef{project, name, uid}, phase: attribute(e, workflows.AttrPhase.GetName()),
				reason: attribute(e, workflows.AttrReason.GetName()), tenant: attribute(e, workflows.AttrTenant.GetName()),
				source: attribute(e, workflows.AttrSource.GetName()), since: e.GetStartTime().AsTime()})
		}
		if req.NextPageToken = r.GetNextPageToken(); len(req.NextPageToken) == 0 {
			slices.SortFunc(out, func(a, b listedShoot) int { return strings.Compare(a.String(), b.String()) })
			return slices.CompactFunc(out, func(a, b listedShoot) bool { return a.shootRef == b.shootRef }), nil
		}
	}
}

// find makes sure that the uid is known.
func (s *session) findShoot(ctx context.Context, r shootRef) (shootRef, error) {
	if r.uid != "" {
		return r, nil
	}
	found, err := s.shoots(ctx, shootFilter{prefix: workflows.ShootID(r.project, r.name, "")})
	switch {
	case err != nil:
		return r, err
	case len(found) == 0:
		return r, fail(ExitNotFound, "one that is over is shown by its uid: tollgate shoot get "+r.project+"/"+r.name+"/UID", "%s has no registration that runs", r)
	case len(found) > 1:
		var uids []string
		for _, f := range found {
			uids = append(uids, f.uid)
		}
		return r, usage("%s: there are %d of the name: add one of the uids %s", r, len(found), strings.Join(uids, ", "))
	}
	return found[0].shootRef, nil
}

func (r shootRef) id() string { return workflows.ShootID(r.project, r.name, r.uid) }

// shootStatus reads a registration, be it over or not.
func (s *session) shootStatus(ctx context.Context, r shootRef) (out api.ShootRegistration, err error) {
	err = s.query(ctx, r.id(), workflows.QueryStatus, &out)
	var closed *closedError
	if errors.As(err, &closed) {
		if err = s.conn.Client.GetWorkflow(ctx, r.id(), "").Get(ctx, &out); err != nil {
			return out, fail(ExitNotFound, "", "the registration of %s has ended without a result: %s", r, closed.status)
		}
		return out, nil
	}
	return out, s.shootErr(ctx, r, err)
}

func (s *session) shootErr(ctx context.Context, r shootRef, err error) error {
	if isNotFound(err) {
		return fail(ExitNotFound, "look with: tollgate shoot list", "%s has no registration that runs", r)
	}
	return s.translate(ctx, r.String(), err)
}

func shootPhases() []string {
	var out []string
	for _, p := range api.ShootPhases() {
		if p != api.ShootEnded {
			out = append(out, string(p))
		}
	}
	return out
}

func (a *app) shootListCmd() *cobra.Command {
	var f shootFilter
	phase := choice{"", shootPhases()}
	c := &cobra.Command{
		Use: "list [PROJECT]", Aliases: []string{"ls"}, Short: "List registrations that are not over",
		Long: "Lists registrations from Temporal's visibility, which may lag some seconds. With -o json\n" +
			"or yaml each registration is asked for its whole document.",
		Example: "  tollgate shoot list\n  tollgate shoot list dev -o wide\n  tollgate shoot list --phase Unresolved",
		Annotations: temporalLines("temporal workflow list --query \"WorkflowType = '" + workflows.TypeShootRegistration +
			"' AND ExecutionStatus = 'Running' AND " + workflows.AttrPhase.GetName() + " = '" + string(api.ShootUnresolved) + "'\""),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usage("%s: %q is one argument too many; usage: %s", cmd.CommandPath(), args[1], useLine(cmd))
			}
			if len(args) == 1 {
				f.project = args[0]
			}
			f.phase = phase.value
			return a.connected(cmd, callTimeout, func(ctx context.Context, s *session) error {
				found, err := s.shoots(ctx, f)
				if err != nil {
					return err
				}
				return a.printShoots(ctx, s, found)
			})
		},
	}
	c.Flags().Var(&phase, "phase", "only those in this phase")
	c.Flags().StringVar(&f.reason, "reason", "", "only those with this reason, such as NotMapped")
	c.Flags().StringVar(&f.source, "source", "", "only those of this source")
	return c
}

func (a *app) printShoots(ctx context.Context, s *session, found []listedShoot) error {
	if a.output.value == formatJSON || a.output.value == formatYAML {
		refs := make([]shootRef, len(found))
		for i, f := range found {
			refs[i] = f.shootRef
		}
		all, err := s.readShoots(ctx, refs)
		return errors.Join(a.print(all, nil), err)
	}
	if len(found) == 0 {
		fmt.Fprintln(a.env.Stderr, "no registrations")
		return nil
	}
	return a.print(nil, func(w io.Writer, wide bool) error {
		t := table{wide: wide}
		t.head("SHOOT", "PHASE", "REASON", "TENANT", "SOURCE", "AGE", "+UID")
		for _, f := range found {
			t.row(f.project+"/"+f.name, f.phase, f.reason, f.tenant, f.source, a.since(f.since), f.uid)
		}
		return t.write(w)
	})
}

// readShoots asks each registration for its status.
func (s *session) readShoots(ctx context.Context, refs []shootRef) ([]api.ShootRegistration, error) {
	found := make([]*api.ShootRegistration, len(refs))
	err := eachIndex(ctx, len(refs), func(ctx context.Context, i int) error {
		r, err := s.findShoot(ctx, refs[i])
		if err != nil {
			return err
		}
		v, err := s.shootStatus(ctx, r)
		if err == nil {
			found[i] = &v
		}
		return err
	})
	out := []api.ShootRegistration{}
	for _, v := range found {
		if v != nil {
			out = append(out, *v)
		}
	}
	return out, err
}

func (a *app) shootGetCmd() *cobra.Command {
	return &cobra.Command{
		Use: "get " + shootName + "...", Aliases: []string{"show", "describe"}, Short: "Show registrations with their relations",
		Example:     "  tollgate shoot get dev/web\n  tollgate shoot get dev/web/6b1f -o yaml",
		Annotations: temporalLines("temporal workflow query --workflow-id shoot/dev/web/6b1f --name " + workflows.QueryStatus),
		Args:        atLeastOne(shootName),
		RunE: func(cmd *cobra.Command, args []string) error {
			refs, err := parseShoots(args)
			if err != nil {
				return err
			}
			return a.connected(cmd, callTimeout, func(ctx context.Context, s *session) error {
				all, err := s.readShoots(ctx, refs)
				if len(all) == 0 && err != nil {
					return err
				}
				return errors.Join(a.print(all, func(w io.Writer, _ bool) error { return a.writeShoots(w, all) }), err)
			})
		},
	}
}

func parseShoots(args []string) ([]shootRef, error) {
	refs := make([]shootRef, len(args))
	for i, arg := range args {
		var err error
		if refs[i], err = parseShoot(arg); err != nil {
			return nil, err
		}
	}
	return refs, nil
}

func (a *app) writeShoots(w io.Writer, all []api.ShootRegistration) error {
	for i, v := range all {
		if i > 0 {
			fmt.Fprintln(w)
		}
		st := v.Status
		line := func(key, format string, args ...any) {
			fmt.Fprintf(w, "%-14s %s\n", key+":", oneLine(fmt.Sprintf(format, args...)))
		}
		line("Shoot", "%s/%s of source %s", v.Metadata.Namespace, v.Metadata.Name, v.Spec.Source)
		line("UID", "%s", v.Metadata.UID)
		line("Phase", "%s since %s", st.Phase, formatTime(st.Since))
		if st.Reason != "" {
			line("Reason", "%s: %s", st.Reason, orDash(st.Message))
		}
		if st.Tenant != nil {
			line("Tenant", "%s, by %s", st.Tenant, st.ResolvedBy)
		}
		line("Created", "%s", orDash(formatTime(v.Spec.CreatedAt)))
		if st.End != nil {
			how := ""
			if st.End.Concluded {
				how = ", concluded from a listing"
			}
			line("Gone", "%s%s", formatTime(st.End.At), how)
		}
		if st.Dropped > 0 {
			line("Relations", "%d older ones are not shown", st.Dropped)
		}
		if len(st.Relations) == 0 {
			continue
		}
		t := table{}
		t.head("TENANT", "FROM", "TO", "WRITTEN", "RELATION")
		for _, r := range st.Relations {
			t.row(r.Tenant.String(), formatTime(r.ValidFrom), formatTime(r.ValidTo), yesNo(r.Settled()), r.ID)
		}
		if err := t.write(w); err != nil {
			return err
		}
	}
	return nil
}
