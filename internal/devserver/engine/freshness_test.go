package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.temporal.io/server/common/dynamicconfig"
	"google.golang.org/grpc"
)

// Reads are fresh from before a change of search attributes until all caches have
// followed, and at no other time.
func TestFreshness(t *testing.T) {
	t.Parallel()
	now := time.Now()
	f := newFreshness(fastDynamicConfig())
	f.now = func() time.Time { return now }
	key := dynamicconfig.ForceSearchAttributesCacheRefreshOnRead.Key()
	fresh := func() bool {
		v := f.GetValue(key)
		return len(v) == 1 && v[0].Value == true
	}
	call := func(method string, during bool) {
		t.Helper()
		boom := errors.New("boom")
		resp, err := f.intercept(t.Context(), "q", &grpc.UnaryServerInfo{FullMethod: method}, func(_ context.Context, req any) (any, error) {
			if fresh() != during {
				t.Errorf("%s: during the call fresh is %v", method, !during)
			}
			return req, boom
		})
		if resp != "q" || !errors.Is(err, boom) {
			t.Errorf("%s: %v, %v are not the handler's", method, resp, err)
		}
	}
	if fresh() {
		t.Error("reads are fresh without a reason")
	}
	call("/temporal.api.operatorservice.v1.OperatorService/ListSearchAttributes", false)
	call("/temporal.api.workflowservice.v1.WorkflowService/GetSearchAttributes", false)
	call("/temporal.api.workflowservice.v1.WorkflowService/DescribeWorkflowExecution", false)
	if fresh() {
		t.Error("reads are fresh after a mere read")
	}
	for _, m := range []string{"AddSearchAttributes", "RemoveSearchAttributes"} {
		call("/temporal.api.operatorservice.v1.OperatorService/"+m, true)
		now = now.Add(freshFor - time.Millisecond)
		if !fresh() {
			t.Errorf("%s: the caches are believed too early", m)
		}
		now = now.Add(time.Millisecond)
		if fresh() {
			t.Errorf("%s: the caches are never believed again", m)
		}
	}
	if v := f.GetValue(dynamicconfig.WorkflowIdReuseMinimalInterval.Key()); len(v) != 1 || v[0].Value != time.Duration(0) {
		t.Errorf("another setting is %v", v)
	}
	f = newFreshness(dynamicconfig.StaticClient{key: false})
	call("/temporal.api.operatorservice.v1.OperatorService/AddSearchAttributes", false)
}
