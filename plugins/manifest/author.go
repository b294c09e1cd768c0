package manifest

import (
	"errors"
	"fmt"
	"strings"

	"github.com/BurntSushi/toml"

	"sluice/internal/text"
)

// File is the name of the author's file, in the folder of a policy's sources.
const File = "manifest.toml"

// ParseTOML reads the author's file: the fields of the section under the same names. What Parse ignores is an error here,
// with the nearest key that there is: the author has misspelt it.
func ParseTOML(file []byte) (Manifest, error) {
	if len(file) > MaxBytes {
		return Manifest{}, fmt.Errorf("the file has %d bytes, at most %d are allowed; shorten its texts", len(file), MaxBytes)
	}
	if line := tooDeep(string(file)); line > 0 {
		return Manifest{}, fmt.Errorf("line %d: tables, lists and the parts of a key nest deeper than %d; a manifest needs 3", line, maxNesting)
	}
	tree, err := decodeTOML(string(file))
	if err != nil {
		return Manifest{}, err
	}
	p := parser{strict: true}
	m := p.manifest(tree)
	return m, p.err
}

// maxMessage is how many bytes of the decoder's words, which may repeat the file's, are told.
const maxMessage = 512

// decodeTOML guards against a panic of the decoder.
func decodeTOML(file string) (tree map[string]any, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the file cannot be parsed: %s", text.Line(fmt.Sprint(r), maxMessage))
		}
	}()
	tree = map[string]any{}
	_, err = toml.Decode(file, &tree)
	var parse toml.ParseError
	if errors.As(err, &parse) {
		return nil, fmt.Errorf("line %d: %s", max(parse.Position.Line, 1), text.Line(strings.TrimSuffix(parse.Message, "."), maxMessage))
	}
	if err != nil {
		return nil, errors.New(text.Line(err.Error(), maxMessage))
	}
	return tree, nil
}
