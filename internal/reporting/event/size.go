package event

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Size holds the values of size fields or counters by name.
type Size map[string]Value

// All yields the fields in the order of their names.
func (s Size) All() iter.Seq2[string, Value] {
	return func(yield func(string, Value) bool) {
		for _, name := range slices.Sorted(maps.Keys(s)) {
			if !yield(name, s[name]) {
				return
			}
		}
	}
}

// Equal reports whether both have the same fields with the same values.
func (s Size) Equal(o Size) bool { return maps.EqualFunc(s, o, Value.Equal) }

// Value is a number, exact to the last decimal, or a word. The zero Value is not
// valid. Values can be compared with ==.
type Value struct {
	text   string
	number bool
}

// Int is a whole number.
func Int[T ~int | ~int32 | ~int64](n T) Value {
	return Value{strconv.FormatInt(int64(n), 10), true}
}

// Float is the shortest decimal that reads back as f, so that 0.1 is one tenth.
// f must be finite.
func Float[T ~float32 | ~float64](f T) Value {
	bits := 64
	if _, ok := any(f).(float32); ok {
		bits = 32
	}
	return Value{canonical(strconv.FormatFloat(float64(f), 'f', -1, bits)), true}
}

// Text is a word such as a machine type.
func Text(s string) Value { return Value{text: s} }

// Bool is the word true or false.
func Bool(b bool) Value { return Text(strconv.FormatBool(b)) }

// IsNumber tells numbers from words.
func (v Value) IsNumber() bool { return v.number }

// String is the decimal or the word.
func (v Value) String() string { return v.text }

// Equal reports whether both are the same number or the same word.
func (v Value) Equal(o Value) bool { return v == o }

// Rat is the number, exactly; nil for a word.
func (v Value) Rat() *big.Rat {
	if !v.number {
		return nil
	}
	r, _ := new(big.Rat).SetString(v.text)
	return r
}

const maxNumber = 40

var decimal = regexp.MustCompile(`^-?[0-9]+(\.[0-9]+)?$`)

func (v Value) validate() error {
	switch {
	case v.number && !decimal.MatchString(v.text):
		return fmt.Errorf("%s is not a decimal number", v.text)
	case v.number && len(v.text) > maxNumber:
		return fmt.Errorf("the number has %d characters: at most %d are allowed", len(v.text), maxNumber)
	case v.number && v.text[0] == '-':
		return fmt.Errorf("%s is negative", v.text)
	case !v.number && v.text == "":
		return fmt.Errorf("is empty")
	}
	return nil
}

// MarshalJSON gives a JSON number or string.
func (v Value) MarshalJSON() ([]byte, error) {
	if v.number {
		if !decimal.MatchString(v.text) {
			return nil, fmt.Errorf("%q is not a decimal number", v.text)
		}
		return []byte(v.text), nil
	}
	return json.Marshal(v.text)
}

// UnmarshalJSON reads a number, a string or a boolean. A number keeps all its
// digits and loses what does not change it: 4.0 and 4e0 are 4.
func (v *Value) UnmarshalJSON(b []byte) error {
	b = bytes.TrimSpace(b)
	switch {
	case len(b) > 0 && b[0] == '"':
		var s string
		if err := json.Unmarshal(b, &s); err != nil {
			return err
		}
		*v = Text(s)
		return nil
	case bytes.Equal(b, []byte("true")) || bytes.Equal(b, []byte("false")):
		*v = Text(string(b))
		return nil
	}
	var n json.Number
	if err := json.Unmarshal(b, &n); err != nil || n == "" {
		return fmt.Errorf("%.40s is neither a number nor a word", b)
	}
	text := n.String()
	if strings.ContainsAny(text, "eE") {
		// An exponent is bounded before it is written out: 1e999999999 is a
		// gigabyte of zeros.
		mantissa, exp, _ := strings.Cut(strings.ToLower(text), "e")
		if e, err := strconv.Atoi(exp); err != nil || e > maxNumber || e < -maxNumber || len(mantissa) > maxNumber {
			return fmt.Errorf("%.40s is out of range", text)
		}
		r, ok := new(big.Rat).SetString(text)
		if !ok {
			return fmt.Errorf("%.40s is not a number", text)
		}
		text = r.FloatString(2 * maxNumber)
	}
	*v = Value{canonical(text), true}
	return nil
}

// canonical gives equal numbers equal texts.
func canonical(s string) string {
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	if s == "-0" {
		s = "0"
	}
	return s
}
