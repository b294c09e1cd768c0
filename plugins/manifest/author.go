package manifest

import (
	"errors"
	"fmt"
	"strings"

	"github.com/BurntSushi/toml"
)

// File is the name of the author's file, in the folder of a policy's sources.
const File = "manifest.toml"

// ParseTOML reads the author's file: the fields of the section under the same names. What Parse ignores is an error here,
// with the nearest key that there is: the author has misspelt it.
func ParseTOML(text []byte) (Manifest, error) {
	if len(text) > MaxBytes {
		return Manifest{}, fmt.Errorf("the file has %d bytes, at most %d are allowed; shorten its texts", len(text), MaxBytes)
	}
	tree, err := decodeTOML(string(text))
	if err != nil {
		return Manifest{}, err
	}
	p := parser{strict: true}
	m := p.manifest(tree)
	return m, p.err
}

// decodeTOML guards against a panic of the decoder.
func decodeTOML(text string) (tree map[string]any, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the file cannot be parsed: %v", r)
		}
	}()
	tree = map[string]any{}
	_, err = toml.Decode(text, &tree)
	var parse toml.ParseError
	if errors.As(err, &parse) {
		return nil, fmt.Errorf("line %d: %s", max(parse.Position.Line, 1), strings.TrimSuffix(parse.Message, "."))
	}
	return tree, err
}
