package config

import (
	"bytes"
	"errors"

	"go.yaml.in/yaml/v3"

	"github.com/tollgate-dev/tollgate/internal/strictyaml"
)

// overlay adds the providers, sinks, sources and secrets of other documents to a
// file's. What the file, or an earlier document, names itself stays as it is there.
func overlay(file *yaml.Node, text []byte) error {
	file = rootOf(file)
	if len(text) == 0 || file.Kind != yaml.MappingNode {
		return nil
	}
	docs, err := strictyaml.Documents(bytes.NewReader(text), "overlay")
	if err != nil {
		return err
	}
	for _, d := range docs {
		more := rootOf(d.Node())
		if more.Kind != yaml.MappingNode {
			return errors.New("overlay: want mappings")
		}
		unplaced(more)
		merge(file, more)
	}
	return nil
}

func merge(file, more *yaml.Node) {
	for _, list := range []string{"providers", "sinks", "sources"} {
		addNamed(file, more, list)
	}
	if from, to := field(more, "secrets"), field(file, "secrets"); from != nil {
		switch {
		case to == nil:
			file.Content = append(file.Content, key("secrets"), from)
		case to.Kind == yaml.MappingNode:
			for i := 0; i+1 < len(from.Content); i += 2 {
				if field(to, from.Content[i].Value) == nil {
					to.Content = append(to.Content, from.Content[i], from.Content[i+1])
				}
			}
		}
	}
}

// addNamed adds the entries of a list whose names the file does not have.
func addNamed(file, more *yaml.Node, list string) {
	from, to := field(more, list), field(file, list)
	switch {
	case from == nil:
	case to == nil:
		file.Content = append(file.Content, key(list), from)
	case to.Kind == yaml.SequenceNode:
		for _, e := range from.Content {
			if !hasName(to, field(e, "name")) {
				to.Content = append(to.Content, e)
			}
		}
	}
}

// rootOf is what a document holds.
func rootOf(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.DocumentNode && len(n.Content) == 1 {
		return n.Content[0]
	}
	return n
}

// unplaced takes the lines away: they are not the file's.
func unplaced(n *yaml.Node) {
	n.Line, n.Column = 0, 0
	for _, c := range n.Content {
		unplaced(c)
	}
}

func key(name string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: name}
}

// field is the value of a mapping's key, nil without one.
func field(n *yaml.Node, name string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i+1]
		}
	}
	return nil
}

func hasName(list, name *yaml.Node) bool {
	if name == nil {
		return false
	}
	for _, e := range list.Content {
		if have := field(e, "name"); have != nil && have.Value == name.Value {
			return true
		}
	}
	return false
}
