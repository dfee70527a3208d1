package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"

	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

func (a *app) proxyReplaceCmd() *cobra.Command {
	var wait bool
	var reason, updateID string
	c := &cobra.Command{
		Use: "replace NAME", Short: "Replace a proxy's instance",
		Long: "Replaces the instance by a new one and returns when that is proven. While a\n" +
			"replacement is under way, further callers join it and get the same answer. Ctrl-C\n" +
			"ends the wait and not the replacement. With --wait=false it is only asked for.",
		Example: "  tollgate proxy replace demo --reason 'address is blocked'\n" +
			"  tollgate proxy replace demo --wait=false",
		Annotations: temporalLines(
			"temporal workflow update execute --workflow-id proxy/default/demo --name "+workflows.UpdateReplace+" --input '{\"reason\":\"address is blocked\"}'",
			"temporal workflow signal --workflow-id proxy/default/demo --name "+workflows.SignalReplace+" --input '{\"reason\":\"address is blocked\"}'   # does not wait"),
		Args: exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := a.objectArg(args[0])
			if err != nil {
				return err
			}
			in := api.ReplaceInput{Reason: reason}
			return a.connected(cmd, a.limit(wait), func(ctx context.Context, s *session) error {
				if !wait {
					if err := s.updateEnded(ctx, o, s.conn.Client.SignalWorkflow(ctx, o.id(), "", workflows.SignalReplace, in)); err != nil {
						return err
					}
					a.say("%s: replacement asked for", o)
					return nil
				}
				if err := s.mustRead(ctx, o); err != nil {
					return err
				}
				if updateID == "" {
					updateID = newUpdateID()
				}
				var r api.ReplaceResult
				err := s.watched(ctx, o, a.progress(1), func(ctx context.Context) error {
					return s.update(ctx, o.id(), updateID, workflows.UpdateReplace, in, &r)
				})
				if err != nil {
					return s.leftRunning(ctx, o, err, "the replacement goes on; wait for it again with: tollgate proxy replace "+o.args()+" --update-id "+updateID)
				}
				return a.print(r, func(w io.Writer, _ bool) error {
					joined := ""
					if r.Joined {
						joined = " (joined a replacement that was under way)"
					}
					_, err := fmt.Fprintf(w, "%s: replaced, serves at %s%s\n", o, endpoint(r.IP, r.Port), joined)
					return err
				})
			})
		},
	}
	c.Flags().BoolVarP(&wait, "wait", "w", true, "wait until the new instance is proven, and show how it goes")
	c.Flags().StringVar(&reason, "reason", "", "why, for the history")
	c.Flags().StringVar(&updateID, "update-id", "", "id of the update, to wait again for one that was asked for before")
	return c
}

func (a *app) proxyDeleteCmd() *cobra.Command {
	var wait, ignoreMissing bool
	var reason string
	var files []string
	c := &cobra.Command{
		Use: "delete NAME...", Short: "Delete proxies and all they made",
		Long: "Deletes proxies. They leave every listing at once; with --wait the command returns\n" +
			"when nothing is left at the provider.",
		Example: "  tollgate proxy delete demo --wait\n" +
			"  tollgate proxy delete -f proxies.yaml",
		Annotations: temporalLines(
			"temporal workflow signal --workflow-id proxy/default/demo --name "+workflows.SignalDelete,
			"temporal workflow cancel --workflow-id proxy/default/demo   # the same",
			"temporal workflow update execute --workflow-id proxy/default/demo --name "+workflows.UpdateDelete+" --input '{}'   # waits"),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(files) > 0 && len(args) > 0 {
				return usage("%s: names and --filename are both given: use one", cmd.CommandPath())
			}
			if len(files) > 0 {
				return nil
			}
			return atLeastOne("NAME")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			objects, err := a.objects(args, files)
			if err != nil {
				return err
			}
			out := a.progress(len(objects))
			return a.connected(cmd, a.limit(wait), func(ctx context.Context, s *session) error {
				return each(ctx, objects, func(ctx context.Context, o object) error {
					err := a.deleteOne(ctx, s, o, api.DeleteInput{Reason: reason}, wait, out)
					if ignoreMissing && codeOf(err) == ExitNotFound {
						a.say("%s: is not there", o)
						return nil
					}
					return err
				})
			})
		},
	}
	c.Flags().BoolVarP(&wait, "wait", "w", false, "wait until nothing is left, and show how it goes")
	c.Flags().BoolVar(&ignoreMissing, "ignore-not-found", false, "succeed when a proxy does not exist")
	c.Flags().StringVar(&reason, "reason", "", "why, for the history")
	c.Flags().StringArrayVarP(&files, "filename", "f", nil, "`file` or directory with documents of the proxies to delete, - for standard input")
	return c
}

func (a *app) deleteOne(ctx context.Context, s *session, o object, in api.DeleteInput, wait bool, out *progress) error {
	if !wait {
		err := s.conn.Client.SignalWorkflow(ctx, o.id(), "", workflows.SignalDelete, in)
		if err := s.updateEnded(ctx, o, err); err != nil {
			return err
		}
		a.say("%s: delete asked for", o)
		return nil
	}
	if err := s.mustRun(ctx, o); err != nil {
		return err
	}
	if err := s.mustRead(ctx, o); err != nil {
		return err
	}
	var r api.DeleteResult
	err := s.watched(ctx, o, out, func(ctx context.Context) error {
		return s.update(ctx, o.id(), newUpdateID(), workflows.UpdateDelete, in, &r)
	})
	if err != nil {
		// It may have ended on somebody else's request before it could answer.
		if ended, before := s.deleted(ctx, o, err); ended {
			err, r.Deleted = nil, before.Deleted
		}
	}
	if err != nil {
		return s.leftRunning(ctx, o, err, "the delete goes on; look with: tollgate proxy get "+o.args())
	}
	what := "nothing was left at the provider"
	if len(r.Deleted) > 0 {
		ids := make([]string, len(r.Deleted))
		for i, id := range r.Deleted {
			ids[i] = string(id)
		}
		what = strings.Join(ids, ", ")
	}
	a.say("%s: deleted (%s)", o, what)
	return nil
}

// typeUnanswered is the type of the server's error for an update whose workflow
// ended before the handler did.
const typeUnanswered = "AcceptedUpdateCompletedWorkflow"

// deleted reports whether err means that the workflow came to its end in the
// wanted way while we waited, and its result.
func (s *session) deleted(ctx context.Context, o object, err error) (bool, api.ProxyResult) {
	var r api.ProxyResult
	var failed *temporal.ApplicationError
	unanswered := errors.As(err, &failed) && failed.Type() == typeUnanswered
	if ctx.Err() != nil || !unanswered && !isNotFound(err) {
		return false, r
	}
	d, derr := s.conn.Client.DescribeWorkflowExecution(ctx, o.id(), "")
	if derr != nil {
		return false, r
	}
	switch d.GetWorkflowExecutionInfo().GetStatus() {
	case enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED:
		return s.conn.Client.GetWorkflow(ctx, o.id(), "").Get(ctx, &r) == nil, r
	case enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED:
		return true, r
	}
	return false, r
}

// watched runs a long call and shows how the proxy does meanwhile.
func (s *session) watched(ctx context.Context, o object, out *progress, call func(context.Context) error) error {
	watch, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		// The poll is for show: its end and its errors mean nothing.
		_, _ = s.poll(watch, o, out, func(api.Proxy, bool) (bool, error) { return false, nil })
	}()
	err := call(ctx)
	stop()
	<-ended
	out.done()
	return err
}

// leftRunning translates the end of a wait; if it was only the wait that ended,
// the error says how to go on.
func (s *session) leftRunning(ctx context.Context, o object, err error, hint string) error {
	err = s.updateEnded(ctx, o, err)
	var e *Error
	if errors.As(err, &e) && (e.Code == ExitInterrupted || e.Code == ExitTimeout) {
		e.Hint = hint
	}
	return err
}
