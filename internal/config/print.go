package config

import (
	"fmt"
	"io"
	"strings"
)

// Print writes every key in the form of the file. Loading what it writes gives an equal Config, as long as relative
// policy paths are read from the working folder.
func (c *Config) Print(w io.Writer) error {
	return c.write(w, false)
}

// Annotate writes the default configuration with the meaning and the range of every section and key: the config.toml
// that the binary carries.
func Annotate(w io.Writer) error {
	const head = `# Sluice's configuration, every key at its default. What a file leaves out keeps the value shown here.
#
# The environment sets a key too (http.port is SLUICE_HTTP_PORT), and so does a flag (--http.port 30001); a flag beats
# the environment, which beats the file. "sluice config check --config FILE" lists everything that is wrong with a file.
`
	if _, err := io.WriteString(w, head); err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	return Default().write(w, true)
}

func (c *Config) write(w io.Writer, annotate bool) error {
	var b strings.Builder
	for i, s := range sections() {
		if i > 0 || annotate {
			b.WriteByte('\n')
		}
		if annotate {
			comment(&b, s.Doc)
		}
		fmt.Fprintf(&b, "[%s]\n", s.Name)
		var tables strings.Builder
		for _, k := range keys() {
			if k.Section() != s.Name {
				continue
			}
			if k.Kind == KindTable {
				if err := c.writeTable(&tables, k, annotate); err != nil {
					return err
				}
				continue
			}
			if annotate {
				comment(&b, k.Doc+rangeNote(k))
			}
			fmt.Fprintf(&b, "%s = %s\n", k.Leaf(), format(k, k.get(c)))
		}
		for _, t := range inlineTables() {
			if parent, leaf := cutLast(t.Name); parent == s.Name {
				c.writeInline(&b, t, leaf, annotate)
			}
		}
		b.WriteString(tables.String())
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	return nil
}

// writeInline writes an inline table with those of its keys that are set.
func (c *Config) writeInline(b *strings.Builder, t Section, leaf string, annotate bool) {
	text, doc := "", t.Doc
	for _, k := range keys() {
		if k.Section() != t.Name {
			continue
		}
		doc += " " + k.Leaf() + ": " + k.Doc + rangeNote(k)
		if v := k.get(c); v != k.def {
			if text != "" {
				text += ","
			}
			text += " " + k.Leaf() + " = " + format(k, v)
		}
	}
	if annotate {
		comment(b, doc)
	}
	if text != "" {
		text += " "
	}
	fmt.Fprintf(b, "%s = {%s}\n", leaf, text)
}

func cutLast(name string) (parent, leaf string) {
	i := strings.LastIndexByte(name, '.')
	return name[:i], name[i+1:]
}

// writeTable writes a policy's table, which has to follow the plain keys of its section.
func (c *Config) writeTable(b *strings.Builder, k Key, annotate bool) error {
	lines, err := tableTOML(k.get(c).([]byte))
	if err != nil {
		return fmt.Errorf("print %s: %w", k.Name, err)
	}
	if annotate {
		comment(b, k.Doc)
	}
	if lines != "" || annotate {
		fmt.Fprintf(b, "[%s]\n%s", k.Name, lines)
	}
	return nil
}

func rangeNote(k Key) string {
	switch k.Kind {
	case KindInt, KindFloat, KindDuration, KindSize:
		return " Range: " + k.Range + "."
	case KindEnum:
		return " One of: " + k.Range + "."
	}
	return ""
}

// comment writes text as comment lines of at most 120 characters.
func comment(b *strings.Builder, text string) {
	line := "#"
	for _, word := range strings.Fields(text) {
		if len(line)+1+len(word) > 120 {
			b.WriteString(line + "\n")
			line = "#"
		}
		line += " " + word
	}
	b.WriteString(line + "\n")
}
