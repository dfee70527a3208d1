package codec

import "time"

// SetCheckEvery makes a test wait less for a change of the file to be seen.
func (f *KeyFile) SetCheckEvery(d time.Duration) { f.checkEvery = d }
