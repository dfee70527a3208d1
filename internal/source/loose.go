package source

import "encoding/json"

// Loose reads an object field by field where it is not what it should be: what
// can be read of it counts.
func Loose[T any](raw json.RawMessage) (v T) {
	if json.Unmarshal(raw, &v) == nil {
		return v
	}
	var fields map[string]json.RawMessage
	var out T
	if json.Unmarshal(raw, &fields) != nil {
		return out
	}
	for name, value := range fields {
		var alone T
		one, err := json.Marshal(map[string]json.RawMessage{name: value})
		if err == nil && json.Unmarshal(one, &alone) == nil {
			_ = json.Unmarshal(one, &out) // it was read a moment ago
		}
	}
	return out
}
