//go:build bench

package bench

import (
	"slices"
	"sync"
	"testing"
	"time"
)

// quantile of times, 0 to 1; zero without any.
func quantile(times []time.Duration, q float64) time.Duration {
	if len(times) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(times))
	return sorted[int(q*float64(len(sorted)-1)+0.5)]
}

func p50(times []time.Duration) time.Duration { return quantile(times, 0.5) }

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// perSecond is how many of n there are in a second.
func perSecond(n int, d time.Duration) float64 { return float64(n) / d.Seconds() }

// parallel calls do for every index below n, width at once. The first error ends
// the benchmark.
func parallel(b *testing.B, n, width int, do func(i int) error) {
	b.Helper()
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		first error
	)
	next := make(chan int)
	for range min(n, width) {
		wg.Go(func() {
			for i := range next {
				if err := do(i); err != nil {
					mu.Lock()
					if first == nil {
						first = err
					}
					mu.Unlock()
				}
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
	if first != nil {
		b.Fatal(first)
	}
}

// eventually polls until problem returns "" and fails the benchmark at the
// limit. It returns how long that took.
func eventually(b *testing.B, limit, every time.Duration, problem func() string) time.Duration {
	b.Helper()
	start := time.Now()
	for {
		p := problem()
		if p == "" {
			return time.Since(start)
		}
		if time.Since(start) > limit {
			b.Fatalf("after %s: %s", limit, p)
		}
		time.Sleep(every)
	}
}
