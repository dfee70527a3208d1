package main

import (
	"context"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// attributesLimit bounds the calls that add search attributes.
const attributesLimit = 30 * time.Second

// ensureSearchAttributes adds what the namespaces lack. A namespace gets its
// attributes when it is created, but one from an earlier start may be older
// than the attribute.
func ensureSearchAttributes(ctx context.Context, frontend string, namespaces []string, want map[string]enumspb.IndexedValueType) error {
	if len(want) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, attributesLimit)
	defer cancel()
	conn, err := grpc.NewClient(frontend, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return fmt.Errorf("search attributes: %w", err)
	}
	defer conn.Close()
	operator := operatorservice.NewOperatorServiceClient(conn)
	for _, ns := range namespaces {
		have, err := operator.ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: ns}, grpc.WaitForReady(true))
		if err != nil {
			return fmt.Errorf("search attributes of namespace %q: %w", ns, err)
		}
		missing := map[string]enumspb.IndexedValueType{}
		for name, typ := range want {
			switch old, ok := have.GetCustomAttributes()[name]; {
			case !ok:
				missing[name] = typ
			case old != typ:
				return fmt.Errorf("search attribute %s of namespace %q is %v, want %v", name, ns, old, typ)
			}
		}
		if len(missing) == 0 {
			continue
		}
		if _, err := operator.AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{Namespace: ns, SearchAttributes: missing}); err != nil {
			return fmt.Errorf("add search attributes to namespace %q: %w", ns, err)
		}
	}
	return nil
}
