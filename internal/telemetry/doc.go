// Package telemetry sets up what Tollgate says about itself: logs (slog),
// traces (OpenTelemetry) and metrics (Prometheus), for the worker, the CLI and
// tollgate-dev alike, and the glue that makes Temporal's SDK take part.
//
// # Log tiers
//
//   - Info: one line per operation outcome. Created, replaced, deleted, a sweep's
//     result, a configuration taken over. What an operator reads every day.
//   - Warn and Error: an outcome that somebody has to look at. Logged once, where
//     it is handled.
//   - Debug: one line per backend call, failed or not: operation, class, duration.
//   - Trace (LevelTrace, four below Debug): the details of requests and answers,
//     sizes and identifiers. Never headers, query strings, bodies that can hold a
//     secret, credentials or cloud-init, at any level.
//
// Messages are constant; facts are attributes with snake_case keys. A line that
// is logged with a context (InfoContext and its like) or through the loggers of
// a workflow or activity carries trace_id and span_id while its trace is
// recorded.
//
// # Traces
//
// A trace belongs to an operation that somebody asked for: a command of the CLI,
// a request of the discovery API. Only StartOperation and Tracing.Middleware
// begin one, or a caller that sends its own trace context. Everything else
// (watching, probing, sweeping, token refreshes) makes no spans unless it runs
// inside such a trace. Drivers wrap their HTTP transport with Transport and need
// nothing else.
package telemetry
