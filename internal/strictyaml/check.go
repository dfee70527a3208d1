package strictyaml

import (
	"encoding"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

const (
	nullTag      = "!!null"
	mergeTag     = "!!merge"
	strTag       = "!!str"
	intTag       = "!!int"
	floatTag     = "!!float"
	boolTag      = "!!bool"
	timestampTag = "!!timestamp"

	maxProblems = 20
	// maxNodes and maxDepth bound what aliases can multiply.
	maxNodes = 1 << 20
	maxDepth = 100
)

// unmarshaler is the older of the library's two interfaces, which it calls too.
type unmarshaler interface {
	UnmarshalYAML(unmarshal func(any) error) error
}

var (
	nodeType        = reflect.TypeFor[yaml.Node]()
	timeType        = reflect.TypeFor[time.Time]()
	durationType    = reflect.TypeFor[time.Duration]()
	newUnmarshaler  = reflect.TypeFor[yaml.Unmarshaler]()
	oldUnmarshaler  = reflect.TypeFor[unmarshaler]()
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
)

func typeOf(into any) reflect.Type {
	t := reflect.TypeOf(into)
	if t == nil || t.Kind() != reflect.Pointer {
		panic(fmt.Sprintf("strictyaml: decoding into %T, which is no pointer", into))
	}
	return t.Elem()
}

// checker compares a tree of nodes with a type before anything is decoded.
type checker struct {
	file  string
	errs  []*Error
	nodes int
	depth int
}

func (c *checker) err() error {
	slices.SortStableFunc(c.errs, func(a, b *Error) int { return a.Line - b.Line })
	var out []error
	for i, e := range c.errs {
		if i == maxProblems {
			out = append(out, &Error{File: c.file, Msg: fmt.Sprintf("%d more problems", len(c.errs)-i)})
			break
		}
		out = append(out, e)
	}
	return errors.Join(out...)
}

func (c *checker) bad(n *yaml.Node, path, format string, args ...any) {
	c.errs = append(c.errs, &Error{File: c.file, Line: n.Line, Path: path, Msg: fmt.Sprintf(format, args...)})
}

func (c *checker) check(n *yaml.Node, t reflect.Type, path string) {
	c.nodes++
	c.depth++
	defer func() { c.depth-- }()
	if c.nodes == maxNodes || c.depth == maxDepth {
		c.bad(n, path, "is nested or aliased too deeply")
	}
	if c.nodes >= maxNodes || c.depth >= maxDepth {
		return
	}
	if n.Kind == yaml.AliasNode {
		c.check(n.Alias, t, path)
		return
	}
	for t.Kind() == reflect.Pointer && !custom(t) {
		t = t.Elem()
	}
	switch {
	case n.Kind == yaml.ScalarNode && n.Tag == nullTag:
		return // the same as leaving the field out
	case t == nodeType, t.Kind() == reflect.Interface:
		c.any(n, path)
	case t == timeType:
		c.scalar(n, path, "a time such as 2006-01-02T15:04:05Z", func() bool {
			var v time.Time
			return n.Decode(&v) == nil
		})
	case t == durationType:
		c.scalar(n, path, `a duration such as "10m" or "90s"`, func() bool {
			_, err := time.ParseDuration(n.Value)
			return err == nil && n.Tag == strTag
		})
	case custom(t):
		if err := n.Decode(reflect.New(t).Interface()); err != nil {
			c.delegated(n, path, err)
		}
	default:
		c.kind(n, t, path)
	}
}

// delegated reports what an unmarshal method of the type's own said.
func (c *checker) delegated(n *yaml.Node, path string, err error) {
	if own := located(err); len(own) > 0 {
		for _, e := range own {
			if e.File == "" {
				e.File = c.file
			}
		}
		c.errs = append(c.errs, own...)
		return
	}
	msg := cleanMessage(err)
	if m := lineText.FindString(msg); m != "" {
		msg = msg[len(m):]
	}
	c.bad(n, path, "%s", strings.TrimPrefix(msg, path+": "))
}

// located collects the *Errors in a tree of joined errors.
func located(err error) []*Error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var out []*Error
		for _, e := range joined.Unwrap() {
			out = append(out, located(e)...)
		}
		return out
	}
	var own *Error
	if errors.As(err, &own) {
		return []*Error{own}
	}
	return nil
}

func (c *checker) kind(n *yaml.Node, t reflect.Type, path string) {
	switch t.Kind() {
	case reflect.Struct:
		if c.is(n, yaml.MappingNode, path) {
			c.structure(n, t, path)
		}
	case reflect.Map:
		if c.is(n, yaml.MappingNode, path) {
			c.pairs(n, path, func(key, value *yaml.Node) {
				c.check(key, t.Key(), path)
				c.check(value, t.Elem(), index(path, key.Value))
			})
		}
	case reflect.Slice, reflect.Array:
		if c.is(n, yaml.SequenceNode, path) {
			for i, e := range n.Content {
				c.check(e, t.Elem(), index(path, strconv.Itoa(i)))
			}
		}
	case reflect.String:
		c.scalar(n, path, "a string; put it in quotes", func() bool { return n.Tag == strTag || n.Tag == timestampTag })
	case reflect.Bool:
		c.scalar(n, path, "true or false", func() bool { return n.Tag == boolTag })
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		c.scalar(n, path, wholeNumber(t), func() bool {
			return n.Tag == intTag && n.Decode(reflect.New(t).Interface()) == nil
		})
	case reflect.Float32, reflect.Float64:
		c.scalar(n, path, "a number", func() bool {
			var f float64
			return (n.Tag == floatTag || n.Tag == intTag) && n.Decode(&f) == nil && !math.IsNaN(f) && !math.IsInf(f, 0)
		})
	default:
		panic(fmt.Sprintf("strictyaml: %s: type %s cannot be decoded", path, t))
	}
}

// structure checks a mapping against a struct's fields.
func (c *checker) structure(n *yaml.Node, t reflect.Type, path string) {
	fields, rest := fieldsOf(t)
	c.pairs(n, path, func(key, value *yaml.Node) {
		if ft, ok := fields[key.Value]; ok {
			c.check(value, ft, join(path, key.Value))
		} else if rest != nil {
			c.check(value, rest, join(path, key.Value))
		} else {
			c.unknown(key, path, fields)
		}
	})
}

func (c *checker) unknown(key *yaml.Node, path string, fields map[string]reflect.Type) {
	allowed := make([]string, 0, len(fields))
	for f := range fields {
		allowed = append(allowed, f)
	}
	slices.Sort(allowed)
	hint := ""
	if best := closest(key.Value, allowed); best != "" {
		hint = fmt.Sprintf(" (did you mean %s?)", best)
	}
	c.bad(key, join(path, key.Value), "unknown field%s: allowed are %s", hint, strings.Join(allowed, ", "))
}

// pairs calls f for each key and value and reports keys that occur twice.
// A merge (<<) counts for its mappings' keys, which may be overridden.
func (c *checker) pairs(n *yaml.Node, path string, f func(key, value *yaml.Node)) {
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Tag == mergeTag {
			c.merged(value, path, f)
			continue
		}
		k := resolve(key)
		if k.Kind != yaml.ScalarNode {
			c.bad(key, path, "a key is a %s: want a plain word", kindWord(k))
			continue
		}
		if line, dup := seen[k.Value]; dup {
			c.bad(key, join(path, k.Value), "is given twice, first in line %d", line)
			continue
		}
		seen[k.Value] = key.Line
		f(k, value)
	}
}

func (c *checker) merged(value *yaml.Node, path string, f func(key, value *yaml.Node)) {
	c.nodes++
	c.depth++
	defer func() { c.depth-- }()
	if c.nodes >= maxNodes || c.depth >= maxDepth {
		c.bad(value, path, "is nested or aliased too deeply")
		return
	}
	switch v := resolve(value); v.Kind {
	case yaml.MappingNode:
		c.pairs(v, path, f)
	case yaml.SequenceNode:
		for _, m := range v.Content {
			c.merged(m, path, f)
		}
	default:
		c.bad(value, path, "<< merges a %s: want a mapping", kindWord(v))
	}
}

// any checks what is decoded later or freely: duplicate keys only.
func (c *checker) any(n *yaml.Node, path string) {
	anything := reflect.TypeFor[any]()
	switch n.Kind {
	case yaml.MappingNode:
		c.pairs(n, path, func(key, value *yaml.Node) { c.check(value, anything, join(path, key.Value)) })
	case yaml.SequenceNode:
		for i, e := range n.Content {
			c.check(e, anything, index(path, strconv.Itoa(i)))
		}
	}
}

func (c *checker) is(n *yaml.Node, kind yaml.Kind, path string) bool {
	if n.Kind == kind {
		return true
	}
	want := "a mapping of fields"
	if kind == yaml.SequenceNode {
		want = "a list"
	}
	// The value is not shown: it may be a secret in the wrong place.
	c.bad(n, path, "is a %s: want %s", kindWord(n), want)
	return false
}

func (c *checker) scalar(n *yaml.Node, path, want string, ok func() bool) {
	switch {
	case n.Kind != yaml.ScalarNode:
		c.bad(n, path, "is a %s: want %s", kindWord(n), want)
	case !ok():
		c.bad(n, path, "%s is %s: want %s", show(n, path), article(kindWord(n)), want)
	}
}

func custom(t reflect.Type) bool {
	if t == timeType {
		return false
	}
	p := reflect.PointerTo(t)
	return p.Implements(newUnmarshaler) || p.Implements(oldUnmarshaler) || p.Implements(textUnmarshaler)
}

func wholeNumber(t reflect.Type) string {
	switch bits := t.Bits(); {
	case t.Kind() >= reflect.Uint && bits == 64:
		return "a whole number, 0 or more"
	case t.Kind() >= reflect.Uint:
		return fmt.Sprintf("a whole number from 0 to %d", uint64(1)<<bits-1)
	case bits < 64:
		return fmt.Sprintf("a whole number from %d to %d", -(int64(1) << (bits - 1)), int64(1)<<(bits-1)-1)
	}
	return "a whole number"
}
