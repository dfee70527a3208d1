package cli

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"

	"github.com/tollgate-dev/tollgate/activities"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

func (a *app) shootRegisterCmd() *cobra.Command {
	var f api.ShootFacts
	var created, tenant string
	var wait bool
	c := &cobra.Command{
		Use: "register PROJECT/NAME --uid UID", Short: "Register a shoot by hand, or say what nobody knows of it",
		Long: "Starts the registration of a shoot, or adds to one that runs: a tenant that is given\n" +
			"counts before anything else. Workers register every shoot that a source reports; by hand\n" +
			"it is for shoots that no source sees, and for tenants that nobody can resolve.",
		Example: "  tollgate shoot register dev/web --uid 6b1f --tenant hetzner:acme\n" +
			"  tollgate shoot register dev/web --uid 6b1f --source garden --created 2026-11-01T08:00:00Z --infrastructure openstack --wait",
		Annotations: temporalLines("temporal workflow start --type "+workflows.TypeShootRegistration+" --task-queue "+workflows.TaskQueue+" --workflow-id shoot/dev/web/6b1f \\\n"+
			"    --input '{\"source\":\"garden\",\"project\":\"dev\",\"name\":\"web\",\"uid\":\"6b1f\"}'",
			"temporal workflow update execute --workflow-id shoot/dev/web/6b1f --name "+workflows.UpdateShootRegister+" --input '{\"tenant\":{\"platform\":\"hetzner\",\"externalID\":\"acme\"}}'"),
		Args: exactly("PROJECT/NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := parseShoot(args[0])
			if err != nil {
				return err
			}
			if r.uid == "" {
				if err := required(cmd, "uid"); err != nil {
					return err
				}
				r.uid = f.UID
			}
			f.Project, f.Name, f.UID = r.project, r.name, r.uid
			if created != "" {
				if f.CreatedAt, err = a.parseTime("created", created); err != nil {
					return err
				}
			}
			if tenant != "" {
				platform, id, ok := strings.Cut(tenant, ":")
				f.Tenant = &api.Tenant{Platform: platform, ExternalID: id}
				if err := f.Tenant.Validate("--tenant"); !ok || err != nil {
					return usage("--tenant: %q is no tenant: use PLATFORM:ACCOUNT, such as hetzner:acme", tenant)
				}
			}
			timeout := callTimeout
			if wait {
				timeout = waitTimeout
			}
			return a.connected(cmd, timeout, func(ctx context.Context, s *session) error { return a.register(ctx, s, r, f, wait) })
		},
	}
	c.Flags().StringVar(&f.UID, "uid", "", "the shoot's uid: kubectl get shoot NAME -o jsonpath='{.status.uid}'")
	c.Flags().StringVar(&f.Source, "source", "", "configured source of the shoot's Gardener; required unless it is registered already")
	c.Flags().StringVar(&created, "created", "", "when the shoot was created, such as 2026-11-01T08:00:00Z (default: the shoot is asked)")
	c.Flags().StringVar(&f.Infrastructure, "infrastructure", "", "the shoot's provider type, such as openstack or hcloud (default: the shoot is asked)")
	c.Flags().StringVar(&tenant, "tenant", "", "the infrastructure tenant, `PLATFORM:ACCOUNT` as in the platform's events (default: it is resolved)")
	c.Flags().BoolVarP(&wait, "wait", "w", false, "wait until the relation is written")
	return c
}

// register starts a registration, or adds to the one that runs.
func (a *app) register(ctx context.Context, s *session, r shootRef, f api.ShootFacts, wait bool) error {
	var now api.ShootRegistration
	err := s.update(ctx, r.id(), newUpdateID(), workflows.UpdateShootRegister, f, &now)
	switch {
	case err == nil:
		a.say("%s: added to its registration, which is %s", r, now.Status.Phase)
	case !isNotFound(err):
		return s.translate(ctx, r.String(), err)
	default:
		if over, oerr := s.shootStatus(ctx, r); oerr == nil {
			return fail(ExitConflict, "look with: tollgate shoot get "+r.project+"/"+r.name+"/"+r.uid, "%s: its registration is %s", r, over.Status.Phase)
		}
		if err := f.Validate(); err != nil {
			return usage("%v", err)
		}
		o := activities.ShootStart(f)
		o.WorkflowIDConflictPolicy = enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL
		_, err := s.conn.Client.ExecuteWorkflow(ctx, o, workflows.TypeShootRegistration, api.ShootRegistrationInput{ShootFacts: f})
		if temporal.IsWorkflowExecutionAlreadyStartedError(err) {
			return fail(ExitConflict, "", "%s was registered just now", r)
		}
		if err != nil {
			return s.translate(ctx, r.String(), err)
		}
		a.say("%s: registration started", r)
	}
	if !wait {
		return nil
	}
	return a.waitRegistered(ctx, s, r)
}

// waitRegistered waits until the relation is written, or nobody knows the tenant.
func (a *app) waitRegistered(ctx context.Context, s *session, r shootRef) error {
	for {
		v, err := s.shootStatus(ctx, r)
		switch st := v.Status; {
		case err != nil:
			return err
		case st.Phase == api.ShootUnresolved:
			return fail(ExitStuck, "", "%s: %s: %s", r, st.Reason, st.Message)
		case st.Phase == api.ShootEnded, st.Phase == api.ShootRegistered && st.Reason == "" && st.Tenant != nil:
			a.say("%s: its tenant is %s", r, st.Tenant)
			return nil
		}
		select {
		case <-ctx.Done():
			return s.translate(ctx, r.String(), ctx.Err())
		case <-time.After(s.pollEvery):
		}
	}
}

// shootUpdate sends an update to the registrations of the named shoots.
func (a *app) shootUpdate(cmd *cobra.Command, args []string, name string, in any, done string) error {
	refs, err := parseShoots(args)
	if err != nil {
		return err
	}
	return a.connected(cmd, callTimeout, func(ctx context.Context, s *session) error {
		var errs []error
		for _, r := range refs {
			r, err := s.findShoot(ctx, r)
			if err == nil {
				var out api.ShootRegistration
				if err = s.update(ctx, r.id(), newUpdateID(), name, in, &out); err == nil {
					a.say("%s: %s", r, done)
				} else {
					err = s.shootErr(ctx, r, err)
				}
			}
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	})
}

func (a *app) shootDeregisterCmd() *cobra.Command {
	var at string
	c := &cobra.Command{
		Use: "deregister " + shootName + " --at TIME", Short: "Say that a shoot is gone: its relation is closed",
		Long: "Closes the relation of a shoot at the time at which the shoot was gone. Nothing is\n" +
			"removed. Workers do so for every shoot whose end a source reports.",
		Example:     "  tollgate shoot deregister dev/web --at 2026-11-03T17:00:00Z",
		Annotations: temporalLines("temporal workflow update execute --workflow-id shoot/dev/web/6b1f --name " + workflows.UpdateShootEnd + " --input '{\"at\":\"2026-11-03T17:00:00Z\"}'"),
		Args:        exactly(shootName),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := required(cmd, "at"); err != nil {
				return err
			}
			t, err := a.parseTime("at", at)
			if err != nil {
				return err
			}
			return a.shootUpdate(cmd, args, workflows.UpdateShootEnd, api.ShootEnd{At: t}, "its relation is closed at "+formatTime(t))
		},
	}
	c.Flags().StringVar(&at, "at", "", "when the shoot was gone: a time such as 2026-11-03T17:00:00Z, or a duration before now such as 10m")
	return c
}

func (a *app) shootRetryCmd() *cobra.Command {
	return &cobra.Command{
		Use: "retry " + shootName + "...", Short: "Resolve the tenant and check the relation again, at once",
		Example:     "  tollgate shoot retry dev/web",
		Annotations: temporalLines("temporal workflow signal --workflow-id shoot/dev/web/6b1f --name " + workflows.SignalRetry),
		Args:        atLeastOne(shootName),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.shootUpdate(cmd, args, workflows.UpdateShootRetry, nil, "tried again")
		},
	}
}
