package reportingserver

import (
	"context"
	"time"
)

const (
	// quiet is how long nothing has to come in before spans are made anew, so that
	// deliveries have the machine for themselves, and patience how long at most.
	quiet    = 500 * time.Millisecond
	patience = 10 * time.Second
)

// keepFresh makes spans anew in the background, so that whoever asks for usage
// finds little to do. It ends with ctx.
func (s *Server) keepFresh(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.came:
		}
		limit := time.After(patience)
		for waiting := true; waiting; {
			select {
			case <-ctx.Done():
				return
			case <-s.came:
			case <-time.After(quiet):
				waiting = false
			case <-limit:
				waiting = false
			}
		}
		for more := true; more; {
			var err error
			if more, err = s.store.RefreshSome(ctx, ""); err != nil && ctx.Err() == nil {
				s.opts.Logger.WarnContext(ctx, "spans are not made anew; usage does it when it is asked for", "error", err)
			}
			if len(s.came) > 0 {
				break // wait for quiet again; it goes on then
			}
		}
	}
}

// arrived says that something has come in.
func (s *Server) arrived() {
	select {
	case s.came <- struct{}{}:
	default: // said already
	}
}
