// Package words is how the reports of workflows put things.
package words

import (
	"errors"
	"fmt"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
)

// Explain reads an activity's failure: its class, which is the type of an
// application error, NoWorker, Timeout or Unknown, and a text. what is what a
// worker has to have configured to take the activity: "provider" or "source".
func Explain(err error, what string) (class, text string) {
	var app *temporal.ApplicationError
	var timeout *temporal.TimeoutError
	switch {
	case errors.As(err, &app):
		return app.Type(), app.Message()
	case errors.As(err, &timeout) && timeout.TimeoutType() == enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START:
		return "NoWorker", "no worker took it; is the " + what + " configured on any?"
	case errors.As(err, &timeout):
		return "Timeout", "it took too long (" + timeout.TimeoutType().String() + ")"
	}
	return "Unknown", err.Error()
}

// Plural counts things whose name takes an s.
func Plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
