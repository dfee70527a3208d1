// Package strictyaml decodes YAML (and so JSON) documents that people write,
// and refuses everything that is probably a mistake: unknown fields, duplicate
// keys, values of another type, fractions where whole numbers are wanted. Each
// problem names file, line, field, value and what is allowed, and all problems
// of a document are reported at once.
//
// Values are decoded by go.yaml.in/yaml/v3 with the types' yaml tags; types
// with unmarshal methods of their own keep them.
package strictyaml

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// MaxBytes is the largest input that is read.
const MaxBytes = 16 << 20

// Error is one problem at one place.
type Error struct {
	// File is the name given to Documents, usually a path.
	File string
	// Line counts from 1; 0 means the file as a whole.
	Line int
	// Path is the field, such as spec.port or providers[2].name; empty for the
	// document as a whole.
	Path string
	// Msg says what is wrong and what is allowed.
	Msg string
	// Err is the cause, if another error is behind it.
	Err error
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d", e.Line)
	}
	b.WriteString(": ")
	if e.Path != "" {
		b.WriteString(e.Path + ": ")
	}
	b.WriteString(e.Msg)
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Document is one document of a stream, or a part of one.
type Document struct {
	file string
	base string // path of node within the document, empty at the top
	node *yaml.Node
}

// Decode reads exactly one document from r into the value that into points to.
// Fields that the document leaves out keep their values, so into may hold
// defaults. name is the file's name in errors. An empty input and a second
// document are errors.
func Decode(r io.Reader, name string, into any) error {
	docs, err := Documents(r, name)
	if err != nil {
		return err
	}
	switch len(docs) {
	case 0:
		return &Error{File: name, Msg: "is empty: one YAML document is wanted"}
	case 1:
		return docs[0].Decode(into)
	}
	return docs[1].errorf("", "a second document starts here: one is wanted")
}

// Documents splits a stream into its documents and leaves out empty ones. A
// syntax error anywhere gives an error and no documents.
func Documents(r io.Reader, name string) ([]Document, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxBytes+1))
	if err != nil {
		return nil, &Error{File: name, Msg: "cannot be read: " + err.Error(), Err: err}
	}
	if len(data) > MaxBytes {
		return nil, &Error{File: name, Msg: fmt.Sprintf("is larger than %d MiB", MaxBytes>>20)}
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var docs []Document
	for {
		var n yaml.Node
		err := dec.Decode(&n)
		if errors.Is(err, io.EOF) {
			return docs, nil
		}
		if err != nil {
			return nil, syntaxError(name, err)
		}
		if len(n.Content) == 0 || n.Content[0].Tag == nullTag {
			continue
		}
		docs = append(docs, Document{file: name, node: n.Content[0]})
	}
}

// FromNode makes a part of a larger document decodable on its own, such as a
// block whose type is known only later. file and path say where it stands.
func FromNode(node *yaml.Node, file, path string) Document {
	if node.Kind == yaml.DocumentNode && len(node.Content) == 1 {
		node = node.Content[0]
	}
	return Document{file: file, base: path, node: node}
}

// With is the same document with another node in its place, such as a copy of
// its own without a part that is to be ignored.
func (d Document) With(node *yaml.Node) Document {
	d.node = node
	return d
}

// File is the name in errors.
func (d Document) File() string { return d.file }

// Line is where the document's content starts.
func (d Document) Line() int { return d.node.Line }

// Node is the parsed document.
func (d Document) Node() *yaml.Node { return d.node }

// Decode decodes the document into the value that into points to, which stays
// as it is when there is a problem. The error joins one *Error per problem, in
// the order of the lines.
func (d Document) Decode(into any) error {
	c := &checker{file: d.file}
	c.check(d.node, typeOf(into), d.base)
	if err := c.err(); err != nil {
		return err
	}
	if err := d.node.Decode(into); err != nil {
		return d.errorf("", "%s", cleanMessage(err))
	}
	return nil
}

// String returns the scalar at a path of mapping keys, such as "kind" or
// "metadata.name", and whether there is one. It serves to tell what a document
// is before it is decoded.
func (d Document) String(path string) (string, bool) {
	n, found := d.find(path)
	if !found || n.Kind != yaml.ScalarNode || n.Tag == nullTag {
		return "", false
	}
	return n.Value, true
}

// Locate returns the line of a path, or of the deepest part of it that exists.
func (d Document) Locate(path string) int {
	n, _ := d.find(path)
	return n.Line
}

// Errorf makes an *Error at the path's line.
func (d Document) Errorf(path, format string, args ...any) error {
	return d.errorf(path, format, args...)
}

func (d Document) errorf(path, format string, args ...any) error {
	return &Error{File: d.file, Line: d.Locate(path), Path: path, Msg: fmt.Sprintf(format, args...)}
}

// Annotate gives file and line to errors that start with a field's path and a
// colon, as validation of a decoded value makes them ("spec.port: 70000 is
// ..."). Joined errors are annotated one by one. It returns nil for nil.
func (d Document) Annotate(err error) error {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var out []error
		for _, e := range joined.Unwrap() {
			if e != nil {
				out = append(out, d.Annotate(e))
			}
		}
		return errors.Join(out...)
	}
	var own *Error
	if errors.As(err, &own) {
		return err
	}
	path, msg, ok := strings.Cut(err.Error(), ": ")
	if !ok || !pathPattern.MatchString(path) {
		return &Error{File: d.file, Line: d.Line(), Msg: err.Error(), Err: err}
	}
	return &Error{File: d.file, Line: d.Locate(path), Path: path, Msg: msg, Err: err}
}

var pathPattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*(\.[A-Za-z_][A-Za-z0-9_-]*|\[[^\]]*\])*$`)

// find walks the path. When a part is missing it returns the deepest node that
// exists and false.
func (d Document) find(path string) (*yaml.Node, bool) {
	path = strings.TrimPrefix(strings.TrimPrefix(path, d.base), ".")
	n, at := d.node, d.node
	for _, part := range splitPath(path) {
		n = resolve(n)
		var key, next *yaml.Node
		switch n.Kind {
		case yaml.MappingNode:
			for i := 0; i+1 < len(n.Content); i += 2 {
				if n.Content[i].Value == part {
					key, next = n.Content[i], n.Content[i+1]
				}
			}
		case yaml.SequenceNode:
			if i, err := strconv.Atoi(part); err == nil && i >= 0 && i < len(n.Content) {
				key, next = n.Content[i], n.Content[i]
			}
		}
		if next == nil {
			return at, false
		}
		n, at = next, key
	}
	if n.Kind == yaml.ScalarNode {
		return n, true
	}
	return &yaml.Node{Kind: n.Kind, Tag: n.Tag, Line: at.Line, Column: at.Column, Content: n.Content, Alias: n.Alias}, true
}

func splitPath(path string) []string {
	var parts []string
	for path != "" {
		switch i := strings.IndexAny(path, ".["); {
		case i < 0:
			return append(parts, path)
		case i > 0:
			parts = append(parts, path[:i])
			path = path[i:]
		case path[0] == '.':
			path = path[1:]
		default:
			end := strings.IndexByte(path, ']')
			if end < 0 {
				return append(parts, path[1:])
			}
			parts = append(parts, path[1:end])
			path = path[end+1:]
		}
	}
	return parts
}

func resolve(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

var lineText = regexp.MustCompile(`^line (\d+): `)

// syntaxError turns the library's text into an Error. The library has no type
// for syntax errors.
func syntaxError(file string, err error) error {
	msg := strings.TrimPrefix(err.Error(), "yaml: ")
	e := &Error{File: file, Err: err}
	if m := lineText.FindStringSubmatch(msg); m != nil {
		e.Line, _ = strconv.Atoi(m[1])
		msg = msg[len(m[0]):]
	}
	e.Msg = "is not YAML: " + msg
	return e
}

func cleanMessage(err error) string {
	msg := strings.TrimPrefix(err.Error(), "yaml: ")
	return strings.TrimPrefix(strings.TrimPrefix(msg, "unmarshal errors:\n"), "  ")
}
