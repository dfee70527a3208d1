// Package hetznersim is a stateful HTTP server that answers like the Hetzner
// Cloud API, for tests and for trying the hetzner provider without an account.
//
// It follows the vendor's API document: the tests check every request and every
// answer of the endpoints against it. Where the document and the vendor's later
// announcements differ, the announcements win: `datacenter` is gone, deleting a
// load balancer answers with an action, an assigned address has to be unassigned
// before it can be deleted, a free primary IP has the assignee type
// "unassigned", and GET /actions without ids is 410.
//
// It is hard to please on purpose: a request with a field that the document does
// not know is refused, an object under way is locked, names stay taken until a
// delete has really ended, and the rate limit is always on. Faults can be
// switched on from Go (Sim.AddFault) and over HTTP (/_sim/).
//
// Everything that takes time at the vendor is an action that ends at an absolute
// time of the simulator's clock. Each request first applies what has come due,
// so that a clock which a test moves by hand gives exact, repeatable runs.
package hetznersim
