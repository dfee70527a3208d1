package telemetry

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"unicode"

	"go.temporal.io/sdk/log"
)

// SDKLogger adapts a logger for Temporal's SDK: its attributes, WorkflowID and
// the like, become workflow_id like all our keys.
func SDKLogger(l *slog.Logger) log.Logger {
	return log.NewStructuredLogger(slog.New(snakeHandler{l.Handler()}))
}

// snakeHandler turns keys into snake_case.
type snakeHandler struct{ slog.Handler }

func (h snakeHandler) Handle(ctx context.Context, r slog.Record) error {
	out := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	r.Attrs(func(a slog.Attr) bool {
		a.Key = snake(a.Key)
		out.AddAttrs(a)
		return true
	})
	return h.Handler.Handle(ctx, out)
}

func (h snakeHandler) WithAttrs(as []slog.Attr) slog.Handler {
	out := make([]slog.Attr, len(as))
	for i, a := range as {
		a.Key = snake(a.Key)
		out[i] = a
	}
	return snakeHandler{h.Handler.WithAttrs(out)}
}

func (h snakeHandler) WithGroup(name string) slog.Handler {
	return snakeHandler{h.Handler.WithGroup(snake(name))}
}

// snakeKeys remembers the few keys that the SDK uses.
var snakeKeys sync.Map // string -> string

func snake(key string) string {
	if s, ok := snakeKeys.Load(key); ok {
		return s.(string)
	}
	s := toSnake(key)
	snakeKeys.Store(key, s)
	return s
}

// toSnake writes WorkflowID, workflowID and workflow-id as workflow_id. A run of
// capitals is one word.
func toSnake(key string) string {
	runes := []rune(key)
	var b strings.Builder
	for i, r := range runes {
		switch {
		case r == '-' || r == ' ' || r == '.':
			r = '_'
		case unicode.IsUpper(r):
			startsWord := i > 0 && !unicode.IsUpper(runes[i-1]) && runes[i-1] != '_' ||
				i > 0 && i+1 < len(runes) && unicode.IsUpper(runes[i-1]) && unicode.IsLower(runes[i+1])
			if startsWord {
				b.WriteByte('_')
			}
			r = unicode.ToLower(r)
		}
		b.WriteRune(r)
	}
	return b.String()
}
