package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"go.yaml.in/yaml/v3"
)

// Output formats.
const (
	formatTable = "table"
	formatWide  = "wide"
	formatJSON  = "json"
	formatYAML  = "yaml"
)

// choice is a flag with a fixed set of values.
type choice struct {
	value   string
	allowed []string
}

func (c *choice) String() string { return c.value }

func (c *choice) Set(v string) error {
	for _, a := range c.allowed {
		if strings.EqualFold(a, v) {
			c.value = a
			return nil
		}
	}
	return fmt.Errorf("use %s", orList(c.allowed))
}

func (c *choice) Type() string { return strings.Join(c.allowed, "|") }

func orList(words []string) string {
	switch n := len(words); n {
	case 0:
		return ""
	case 1:
		return words[0]
	default:
		return strings.Join(words[:n-1], ", ") + " or " + words[n-1]
	}
}

// table is a table under construction. Wide columns are left out unless asked
// for.
type table struct {
	wide    bool
	columns []column
	rows    [][]string
}

type column struct {
	title string
	wide  bool
}

func (t *table) head(titles ...string) {
	for _, c := range titles {
		t.columns = append(t.columns, column{title: strings.TrimPrefix(c, "+"), wide: strings.HasPrefix(c, "+")})
	}
}

func (t *table) row(cells ...string) { t.rows = append(t.rows, cells) }

func (t *table) write(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	line := func(cells []string) {
		var shown []string
		for i, c := range cells {
			if t.columns[i].wide && !t.wide {
				continue
			}
			if c == "" {
				c = "-"
			}
			shown = append(shown, oneLine(c))
		}
		fmt.Fprintln(tw, strings.Join(shown, "\t"))
	}
	titles := make([]string, len(t.columns))
	for i, c := range t.columns {
		titles[i] = c.title
	}
	line(titles)
	for _, r := range t.rows {
		line(r)
	}
	return tw.Flush()
}

// oneLine keeps a text within its table row, and a foreign text from moving the
// cursor.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			return ' '
		case r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0:
			return '?'
		}
		return r
	}, s)
}

// print writes v in the chosen format; human makes the text for people.
func (a *app) print(v any, human func(w io.Writer, wide bool) error) error {
	var b bytes.Buffer
	var err error
	switch a.output.value {
	case formatJSON:
		err = writeJSON(&b, v)
	case formatYAML:
		err = writeYAML(&b, v)
	default:
		err = human(&b, a.output.value == formatWide)
	}
	if err != nil {
		return err
	}
	_, err = a.env.Stdout.Write(b.Bytes())
	return err
}

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// writeYAML writes the JSON form of v as YAML, so that both have the same
// fields in the same order.
func writeYAML(w io.Writer, v any) error {
	var b bytes.Buffer
	if err := writeJSON(&b, v); err != nil {
		return err
	}
	var n yaml.Node
	if err := yaml.Unmarshal(b.Bytes(), &n); err != nil {
		return err
	}
	blockStyle(&n)
	enc := yaml.NewEncoder(w)
	enc.SetIndent(2)
	if err := enc.Encode(&n); err != nil {
		return err
	}
	return enc.Close()
}

func blockStyle(n *yaml.Node) {
	if n.Kind == yaml.ScalarNode || len(n.Content) > 0 {
		n.Style = 0
	}
	if n.Kind == yaml.ScalarNode && strings.Contains(n.Value, "\n") {
		n.Style = yaml.LiteralStyle
	}
	for _, c := range n.Content {
		blockStyle(c)
	}
}

func formatTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// age is a duration the way tables show it: the largest unit that fits.
func age(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

func (a *app) since(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return age(a.env.Now().Sub(t))
}

// elapsed is a short duration with tenths of a second below ten seconds.
func elapsed(d time.Duration) string {
	if d < 10*time.Second {
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return d.Truncate(time.Second).String()
}
