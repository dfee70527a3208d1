package telemetry

import (
	"fmt"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// operationRoot marks a span that may begin a trace. StartOperation and
// Middleware set it.
var operationRoot = attribute.Bool("tollgate.operation", true)

// NewSampler decides which spans are recorded: those with a recorded parent, and
// of those without a parent the operations that the given sampler takes. All
// other roots are background work and never recorded.
func NewSampler(operations sdktrace.Sampler) sdktrace.Sampler {
	return sdktrace.ParentBased(rootSampler{operations})
}

type rootSampler struct{ operations sdktrace.Sampler }

func (s rootSampler) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	for _, a := range p.Attributes {
		if a == operationRoot {
			return s.operations.ShouldSample(p)
		}
	}
	return sdktrace.SamplingResult{
		Decision:   sdktrace.Drop,
		Tracestate: trace.SpanContextFromContext(p.ParentContext).TraceState(),
	}
}

func (s rootSampler) Description() string {
	return "Operations{" + s.operations.Description() + "}"
}

// operationSampler reads OTEL_TRACES_SAMPLER and OTEL_TRACES_SAMPLER_ARG. The
// parentbased_ forms are the same here: parents always decide.
func operationSampler(getenv func(string) string) (sdktrace.Sampler, error) {
	switch v := strings.TrimPrefix(strings.ToLower(getenv("OTEL_TRACES_SAMPLER")), "parentbased_"); v {
	case "", "always_on":
		return sdktrace.AlwaysSample(), nil
	case "always_off":
		return sdktrace.NeverSample(), nil
	case "traceidratio":
		arg := getenv("OTEL_TRACES_SAMPLER_ARG")
		if arg == "" {
			return sdktrace.AlwaysSample(), nil
		}
		ratio, err := strconv.ParseFloat(arg, 64)
		if err != nil || !(ratio >= 0 && ratio <= 1) {
			return nil, fmt.Errorf("OTEL_TRACES_SAMPLER_ARG: %q is not a ratio: use a number from 0 to 1", arg)
		}
		return sdktrace.TraceIDRatioBased(ratio), nil
	default:
		return nil, fmt.Errorf("OTEL_TRACES_SAMPLER: %q is not supported: use always_on, always_off or traceidratio, "+
			"each also with parentbased_ in front", getenv("OTEL_TRACES_SAMPLER"))
	}
}
