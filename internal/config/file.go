package config

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/BurntSushi/toml"
)

// MaxFile bounds the bytes of a configuration file: far more than any real one, far less than what hurts to parse.
const MaxFile = 1 << 20

// readFile decodes the file and collects its values. A syntax error or a duplicate key is the only problem it then has.
func (l *loader) readFile(name string, data []byte) {
	l.file = name
	if len(data) > MaxFile {
		l.broken = true
		l.report(1, "", fmt.Sprintf("the file has %d bytes; more than %d is no configuration", len(data), MaxFile))
		return
	}
	l.scan = scan(data)
	if l.scan.deep > 0 {
		l.broken = true
		l.report(l.scan.deep, "", fmt.Sprintf("tables and arrays nest deeper than %d; flatten them", maxDepth))
		return
	}
	if l.scan.nameless > 0 {
		l.broken = true
		l.report(l.scan.nameless, "", `a key is empty (""); give it a name`)
		return
	}
	tree, err := decode(string(l.scan.text))
	if err != nil {
		l.broken = true
		l.syntax(err)
		return
	}
	big := map[string]number{}
	for _, n := range l.scan.numbers {
		if k, ok := l.key(n.path); ok && n.direct && k.Kind != KindTable {
			big[pathText(n.path)] = number(n.literal)
			continue
		}
		l.report(n.line, pathText(n.path), clip(pathText(n.path))+" holds a number that does not fit 64 bits; give a smaller one")
	}
	l.walk(tree, nil, big)
}

// decode guards the loader against a panic of the decoder: a hostile file is refused, never a crash.
func decode(text string) (tree map[string]any, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the file cannot be parsed: %v", r)
		}
	}()
	_, err = toml.Decode(text, &tree)
	return tree, err
}

// syntax reports the decoder's error. Duplicates are named with both of their lines, from the scanner's index.
func (l *loader) syntax(err error) {
	var parse toml.ParseError
	if !errors.As(err, &parse) {
		l.report(1, "", err.Error())
		return
	}
	if first, second, ok := l.duplicate(); ok && strings.Contains(parse.Message, "already") {
		name := pathText(second.path)
		what := "the key " + name
		if second.header {
			what = "the section [" + name + "]"
		}
		l.report(second.line, name, fmt.Sprintf("%s is written twice, first on line %d; remove one", what, first.line))
		return
	}
	l.report(max(parse.Position.Line, 1), "", strings.TrimSuffix(parse.Message, ".")+"; the rest of the file was not read")
}

// duplicate finds the first key or section written a second time. Paths under an array of tables may repeat.
func (l *loader) duplicate() (first, second entry, ok bool) {
	seen := map[string]entry{}
	arrays := map[string]bool{}
	for _, e := range l.scan.entries {
		repeats := e.array
		if e.array {
			arrays[pathText(e.path)] = true
		}
		for n := 1; n <= len(e.path); n++ {
			repeats = repeats || arrays[pathText(e.path[:n])]
		}
		at := pathText(e.path)
		if before, again := seen[at]; again && !repeats {
			return before, e, true
		}
		seen[at] = e
	}
	return entry{}, entry{}, false
}

// walk sorts the decoded values into keys, sections and what is neither.
func (l *loader) walk(tree map[string]any, above []string, big map[string]number) {
	for name, v := range tree {
		path := append(append(make([]string, 0, len(above)+1), above...), name)
		text := pathText(path)
		line := l.scan.lines[text]
		if n, ok := big[text]; ok {
			v = n
		}
		if k, ok := l.key(path); ok {
			l.fileValue(k, line, v)
			continue
		}
		if l.section(path) {
			if sub, ok := v.(map[string]any); ok {
				l.walk(sub, path, big)
			} else {
				l.report(line, text, text+notATable(text, v))
			}
			continue
		}
		l.unknown(path, line, v)
	}
}

// notATable says what is wrong with a value in the place of a section or an inline table.
func notATable(name string, v any) string {
	for _, t := range inlineTables() {
		if t.Name == name {
			return fmt.Sprintf(" must be a table, is %s; write its keys in braces, such as %s", describe(v), inlineExample(t.Name))
		}
	}
	return fmt.Sprintf(" is a section and not a value, is %s; write [%s] and its keys below", describe(v), name)
}

// unknown reports a key that is none, or a section that is none together with every key in it, except where it
// is most likely a misspelt config, whose keys are the policy's.
func (l *loader) unknown(path []string, line int, v any) {
	text := clip(pathText(path))
	sub, isTable := v.(map[string]any)
	if !isTable {
		l.report(line, text, fmt.Sprintf("unknown key %s; %s", text, suggestion(nearestKey(path))))
		return
	}
	hint := ""
	var names []string
	for _, s := range sections() {
		names = append(names, s.Name)
	}
	free := false // the table that was meant has whatever keys
	if best, close := nearestTable(path); close {
		hint = "did you mean " + best + "?"
		_, free = l.byName[best]
	} else if best, close := Nearest(strings.Join(path, "."), names); close {
		hint = "did you mean [" + best + "]?"
	} else if key, close := nearestKey(path); close {
		hint = "did you mean the key " + key + "?"
	} else {
		hint = "the sections are " + strings.Join(names, ", ")
	}
	l.report(line, text, fmt.Sprintf("unknown section [%s]; %s", text, hint))
	if free {
		return
	}
	for name, v := range sub {
		inner := append(append(make([]string, 0, len(path)+1), path...), name)
		l.unknown(inner, l.scan.lines[pathText(inner)], v)
	}
}

func (l *loader) fileValue(k Key, line int, raw any) {
	source := fmt.Sprintf("%s:%d", l.file, line)
	v, wrong := k.fromTOML(raw)
	if wrong == "" && k.Leaf() == "path" {
		v = l.resolve(v.(string))
	}
	l.take(k, levelFile, source, line, v, wrong)
}

// resolve makes a relative path of the file start at the file's folder.
func (l *loader) resolve(path string) string {
	dir := filepath.Dir(l.file)
	if path == "" || dir == "." || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// report adds a problem of the file.
func (l *loader) report(line int, key, text string) {
	l.problems = append(l.problems, Problem{
		Source: fmt.Sprintf("%s:%d", l.file, line), Key: key, Text: text, order: orderOf(levelFile, line),
	})
}

// key finds the key with exactly these parts; a part with a dot in it is nobody's.
func (l *loader) key(path []string) (Key, bool) {
	i, ok := l.byName[pathText(path)]
	if !ok {
		return Key{}, false
	}
	return l.keys[i], true
}

// section reports whether path is a table that holds keys or sections.
func (l *loader) section(path []string) bool { return l.sections[pathText(path)] }
