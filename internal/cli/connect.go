package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"

	"go.temporal.io/sdk/converter"

	"github.com/tollgate-dev/tollgate/internal/codec"
	"github.com/tollgate-dev/tollgate/internal/temporalclient"
)

// connect is Env.Connect of a real process.
func connect(ctx context.Context, o ConnectOptions) (*Connection, error) {
	opts := temporalclient.Options{
		Address: o.Address, Namespace: o.Namespace, Profile: o.Profile, Identity: identity(), TracerProvider: o.Tracer,
	}
	var payloads converter.PayloadCodec
	if o.KeyFile != "" {
		keys, err := codec.Open(o.KeyFile, nil)
		if err != nil {
			return nil, keyError(err)
		}
		payloads = codec.New(keys)
		opts.Codec = payloads
	}
	c, err := temporalclient.Dial(ctx, opts)
	if err != nil {
		return nil, err
	}
	return &Connection{
		Client: c.Client, Address: c.Address, Namespace: c.Namespace, Encrypted: payloads != nil,
		Converter: codec.DataConverter(payloads), Failures: codec.FailureConverter(payloads),
	}, nil
}

// identity is how this person and machine appear in histories.
func identity() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	name := fmt.Sprintf("uid-%d", os.Getuid())
	if u, err := user.Current(); err == nil && u.Username != "" {
		name = u.Username
	}
	return name + "@" + host + " (tollgate)"
}

// connectError is a connection that did not come about.
func (s *session) connectError(ctx context.Context, err error) error {
	var own *Error
	var unreachable *temporalclient.UnreachableError
	switch {
	case errors.As(err, &own):
		return err
	case errors.Is(ctx.Err(), context.Canceled):
		return &Error{Code: ExitInterrupted, Msg: "interrupted", Err: err}
	case errors.As(err, &unreachable):
		e := fail(ExitUnavailable, "is make run up? Another address is given by --address, TEMPORAL_ADDRESS or a profile in temporal.toml",
			"temporal cannot be reached at %s: %v", unreachable.Address, unreachable.Err)
		e.Err = err
		return e
	}
	return &Error{Code: ExitUnavailable, Msg: err.Error(), Err: err}
}
