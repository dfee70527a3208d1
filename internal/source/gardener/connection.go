package gardener

import "github.com/tollgate-dev/tollgate/internal/gardener"

// Connection is the one that the source reads over, and Namespace the one that it
// is limited to, if it is. What belongs to its shoots is read the same way.
func (s *Source) Connection() *gardener.Connection { return s.conn }

// Namespace: see Connection.
func (s *Source) Namespace() string { return s.o.Namespace }
