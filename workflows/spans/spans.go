// Package spans lets workflow code say which trace its next steps belong to.
//
// A workflow's steps belong to the trace of whoever started it. For a workflow
// that lives for months that is wrong after its first minutes: what it does on
// its own is nobody's operation and must be in no trace, and what it does
// because of an update belongs to the trace of that update. Nothing here reaches
// the history.
package spans

import "go.temporal.io/sdk/workflow"

type contextKey struct{}

// ContextKey is where a workflow context keeps its span. The tracing
// interceptor uses it.
var ContextKey any = contextKey{}

// Adopt returns ctx with the span of another context of the same workflow, such
// as that of an update's handler: what is done with the result is in its trace.
func Adopt(ctx, from workflow.Context) workflow.Context {
	return workflow.WithValue(ctx, ContextKey, from.Value(ContextKey))
}

// Detach returns ctx without a span: what is done with the result is in no
// trace.
func Detach(ctx workflow.Context) workflow.Context {
	return workflow.WithValue(ctx, ContextKey, nil)
}
