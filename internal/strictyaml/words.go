package strictyaml

import (
	"reflect"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// fieldsOf lists a struct's YAML keys by the library's rules. rest is the
// element type of an inlined map, which takes all other keys; nil if none.
func fieldsOf(t reflect.Type) (fields map[string]reflect.Type, rest reflect.Type) {
	fields = map[string]reflect.Type{}
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("yaml")
		if tag == "-" || f.PkgPath != "" && !f.Anonymous {
			continue
		}
		name, opts, _ := strings.Cut(tag, ",")
		if strings.Contains(","+opts+",", ",inline,") {
			inner := f.Type
			for inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			if inner.Kind() == reflect.Map {
				rest = inner.Elem()
				continue
			}
			more, innerRest := fieldsOf(inner)
			for k, v := range more {
				fields[k] = v
			}
			if innerRest != nil {
				rest = innerRest
			}
			continue
		}
		if name == "" {
			name = strings.ToLower(f.Name)
		}
		fields[name] = f.Type
	}
	return fields, rest
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func index(path, key string) string { return path + "[" + key + "]" }

func kindWord(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "mapping"
	case yaml.SequenceNode:
		return "list"
	}
	switch n.Tag {
	case strTag:
		return "string"
	case intTag:
		return "whole number"
	case floatTag:
		return "number"
	case boolTag:
		return "truth value"
	case timestampTag:
		return "time"
	case nullTag:
		return "null"
	}
	return "value of type " + n.Tag
}

func article(word string) string { return "a " + word }

// secretKeys are fields whose values are not repeated in errors.
var secretKeys = []string{"inline", "password", "secret", "token", "key", "credential"}

func show(n *yaml.Node, path string) string {
	last := strings.ToLower(path[strings.LastIndexByte(path, '.')+1:])
	for _, k := range secretKeys {
		if strings.Contains(last, k) {
			return "the value"
		}
	}
	v := n.Value
	if r := []rune(v); len(r) > 40 {
		v = string(r[:40]) + "..."
	}
	if n.Tag == strTag {
		return strconv.Quote(v)
	}
	return v
}

// closest returns the allowed word that is one slip away from word, or "".
func closest(word string, allowed []string) string {
	best, bestDistance := "", 1+len(word)/3
	for _, a := range allowed {
		if strings.EqualFold(a, word) {
			return a
		}
		if d := distance(strings.ToLower(word), strings.ToLower(a)); d <= bestDistance && (best == "" || d < bestDistance) {
			best, bestDistance = a, d
		}
	}
	return best
}

// distance is the number of single-letter edits, swaps of neighbours included.
func distance(a, b string) int {
	rows := [3][]int{make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)}
	for j := range rows[1] {
		rows[1][j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, last, row := rows[(i-1)%3], rows[i%3], rows[(i+1)%3]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return rows[(len(a)+1)%3][len(b)]
}
