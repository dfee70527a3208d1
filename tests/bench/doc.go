// Package bench measures what Tollgate costs beside what the engine costs: every
// ratio compares two numbers of one run on one machine. Run it with "make
// bench"; docs/explanation/performance.md says what the numbers mean.
package bench
