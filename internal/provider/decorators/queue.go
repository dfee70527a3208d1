package decorators

import (
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// priority orders the operations: lower goes first.
func priority(op provider.Op) int {
	switch op {
	case provider.OpDelete, provider.OpDeleteCompanion:
		return 0
	case provider.OpCreate:
		return 1
	case provider.OpGet, provider.OpFind:
		return 2
	}
	return 3
}

type waiter struct {
	prio, seq, cost int
	index           int // in the heap; -1 when the call may go
	since           time.Time
	ready           chan struct{}
}

// waiters is a heap of waiting calls, the next one first.
type waiters []*waiter

func (q waiters) Len() int { return len(q) }
func (q waiters) Less(i, j int) bool {
	return q[i].prio < q[j].prio || (q[i].prio == q[j].prio && q[i].seq < q[j].seq)
}
func (q waiters) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}
func (q *waiters) Push(x any) {
	w := x.(*waiter)
	w.index = len(*q)
	*q = append(*q, w)
}
func (q *waiters) Pop() any {
	w := (*q)[len(*q)-1]
	w.index = -1
	*q = (*q)[:len(*q)-1]
	return w
}
