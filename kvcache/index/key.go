package index

import "encoding/binary"

// Key says which cached pages may be mixed up with which: pages are shared only below equal keys.
type Key struct {
	Namespace   string // tenant, adapter, salt: framed by FrameNamespace
	Fingerprint string // model weights, dtype and tokenizer
	Layout      string // page size and the arrangement of bytes within a page
}

// Tags of the fields of a canonical key. The first byte is the version of the encoding.
const (
	keyVersion     = 1
	tagNamespace   = 'n'
	tagFingerprint = 'f'
	tagLayout      = 'l'
)

// AppendCanonical appends the one encoding of k: a version byte, then for each field its tag, its length as
// a uvarint and its bytes. Different keys have different encodings, none a prefix of another.
func (k Key) AppendCanonical(dst []byte) []byte {
	dst = append(dst, keyVersion)
	dst = appendFramed(append(dst, tagNamespace), k.Namespace)
	dst = appendFramed(append(dst, tagFingerprint), k.Fingerprint)
	return appendFramed(append(dst, tagLayout), k.Layout)
}

// Field is one named part of a namespace. An absent field (Present false) differs from an empty one; the
// Value of an absent field is ignored.
type Field struct {
	Name    string
	Value   string
	Present bool
}

// FrameNamespace appends an encoding of fields, in the order given, that no other list of fields has: for
// each field the framed name, a byte that says whether it is present, and if so the framed value. So an
// adapter "S" without salt is not a salt "S" without adapter, and ("a", "bc") is not ("ab", "c").
func FrameNamespace(dst []byte, fields ...Field) []byte {
	for _, f := range fields {
		dst = appendFramed(dst, f.Name)
		if !f.Present {
			dst = append(dst, 0)
			continue
		}
		dst = appendFramed(append(dst, 1), f.Value)
	}
	return dst
}

func appendFramed(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}
