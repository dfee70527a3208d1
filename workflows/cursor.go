package workflows

import (
	"fmt"
	"strings"

	"go.temporal.io/sdk/temporal"
)

// TypeEventCursor reads one stream of an event source.
const TypeEventCursor = "EventCursor"

// CursorID is the workflow id of the cursor of a source's stream.
func CursorID(source, stream string) string { return "cursor/" + source + "/" + stream }

// ParseCursorID is the inverse of CursorID.
func ParseCursorID(id string) (source, stream string, err error) {
	parts := strings.Split(id, "/")
	if len(parts) != 3 || parts[0] != "cursor" || parts[1] == "" || parts[2] == "" {
		return "", "", fmt.Errorf("workflow id %q: want cursor/<source>/<stream>", id)
	}
	return parts[1], parts[2], nil
}

// SourceTaskQueue is the task queue of a source's activities.
func SourceTaskQueue(source string) string { return TaskQueue + "/source/" + source }

// Signals of the EventCursor workflow, beside SignalConfigure with an
// api.CursorConfig.
const (
	SignalPause  = "pause"
	SignalResume = "resume"
)

// Updates of the EventCursor workflow, which answer with an api.Cursor.
const (
	UpdatePause    = "Pause"
	UpdateResume   = "Resume"
	UpdateRewind   = "Rewind"   // api.RewindInput, when done
	UpdateBackfill = "Backfill" // api.BackfillInput, when begun
	UpdateRedrive  = "Redrive"  // api.RedriveInput -> api.RedriveResult, when done
)

// Search attributes of cursors, beside AttrPhase, AttrReason and AttrHealthy. The
// times and numbers are those of the last change worth a history event: they are
// up to ten minutes old.
var (
	AttrSource      = temporal.NewSearchAttributeKeyKeyword("TollgateSource")
	AttrGap         = temporal.NewSearchAttributeKeyKeyword("TollgateGap")
	AttrCaughtUpTo  = temporal.NewSearchAttributeKeyTime("TollgateCaughtUpTo")
	AttrLagSeconds  = temporal.NewSearchAttributeKeyInt64("TollgateLagSeconds")
	AttrDeadLetters = temporal.NewSearchAttributeKeyInt64("TollgateDeadLetters")
)

func cursorAttributes() []temporal.SearchAttributeKey {
	return []temporal.SearchAttributeKey{AttrSource, AttrGap, AttrCaughtUpTo, AttrLagSeconds, AttrDeadLetters}
}
