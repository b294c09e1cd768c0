package kit

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strings"

	"sluice/abi"
	"sluice/plugins"
)

// A record file is an append-only list of frames after a fixed head:
//
//	head   8 bytes  "SLBATCH1"
//	frame  u32 length of the payload, u32 CRC-32C of it, payload
//
// Numbers are little-endian. A payload is
//
//	 0 u64 tick      8 u32 rank     12 u8 hook   13 u8 class   14 u8 flags   15 u8 fault class + 1, 0 for none
//	16 i32 status   20 u32 input bytes           24 u32 answer bytes      28 u64 fuel of the call, 0 where it is not known
//	36 input: the batch up to its output records, so header, globals and input records
//	   answer: the output records
//
// Flag bit 0: the policy itself did not give the answer. A file that ends inside a frame was cut; every frame before is whole.
const (
	recordMagic = "SLBATCH1"
	frameHead   = 8
	payloadHead = 36
	flagNative  = 1

	// maxPayload bounds a frame: more than any batch has, and little enough to be read on trust of its length.
	maxPayload = 1 << 28
)

// ErrRecord is what every error about a record file wraps.
var ErrRecord = errors.New("record of batches")

// ErrCut says that a record file ends inside a frame. The frames before are whole.
var ErrCut = fmt.Errorf("%w: the file ends inside a frame", ErrRecord)

// Frame is one recorded call: what a policy was shown on one rank in one tick, and what counted as its answer.
type Frame struct {
	Tick   uint64
	Rank   uint32
	Hook   abi.Hook
	Class  abi.Class // of the instance that answered
	Native bool      // the policy itself did not give the answer: the native one did, or it was held
	Fault  string    // class of the policy's fault, empty for none
	Status abi.Status
	Fuel   uint64 // of the policy's call; 0 where it is not known
	Input  []byte // header, globals, input records
	Answer []byte // output records
}

// RecordWriter appends frames to a file. It belongs to one goroutine.
type RecordWriter struct {
	w   io.Writer
	buf []byte
}

// NewRecordWriter writes the head of a file. Every frame is one Write, so that a file that is cut loses whole frames but
// for the last.
func NewRecordWriter(w io.Writer) (*RecordWriter, error) {
	if _, err := io.WriteString(w, recordMagic); err != nil {
		return nil, fmt.Errorf("%w: write the head: %w", ErrRecord, err)
	}
	return &RecordWriter{w: w}, nil
}

// Append writes one frame. It allocates only where a frame is larger than every one before.
func (w *RecordWriter) Append(f *Frame) error {
	size := payloadHead + len(f.Input) + len(f.Answer)
	if size > maxPayload {
		return fmt.Errorf("%w: a frame of %d bytes, the largest has %d", ErrRecord, size, maxPayload)
	}
	w.buf = append(w.buf[:0], make([]byte, frameHead+payloadHead)...)
	p := w.buf[frameHead:]
	binary.LittleEndian.PutUint64(p[0:], f.Tick)
	binary.LittleEndian.PutUint32(p[8:], f.Rank)
	p[12], p[13] = byte(f.Hook), byte(f.Class)
	if f.Native {
		p[14] = flagNative
	}
	p[15] = faultByte(f.Fault)
	binary.LittleEndian.PutUint32(p[16:], uint32(f.Status))
	binary.LittleEndian.PutUint32(p[20:], uint32(len(f.Input)))
	binary.LittleEndian.PutUint32(p[24:], uint32(len(f.Answer)))
	binary.LittleEndian.PutUint64(p[28:], f.Fuel)
	w.buf = append(append(w.buf, f.Input...), f.Answer...)
	p = w.buf[frameHead:]
	binary.LittleEndian.PutUint32(w.buf[0:], uint32(len(p)))
	binary.LittleEndian.PutUint32(w.buf[4:], crc32.Checksum(p, castagnoli()))
	if _, err := w.w.Write(w.buf); err != nil {
		return fmt.Errorf("%w: %w", ErrRecord, err)
	}
	return nil
}

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) } // made once by the package, then shared

func faultByte(class string) byte {
	for i, c := range plugins.FaultClasses() {
		if c.String() == class {
			return byte(i) + 1
		}
	}
	return 0
}

// faultNames lists the classes of faults.
func faultNames() string {
	var names []string
	for _, c := range plugins.FaultClasses() {
		names = append(names, c.String())
	}
	return strings.Join(names, ", ")
}

func faultName(b byte) (string, bool) {
	all := plugins.FaultClasses()
	switch {
	case b == 0:
		return "", true
	case int(b) <= len(all):
		return all[b-1].String(), true
	}
	return "", false
}

// RecordReader reads frames in order. It belongs to one goroutine.
type RecordReader struct {
	r      io.Reader
	buf    []byte
	offset int64
	frames int
}

// NewRecordReader checks the head of a file.
func NewRecordReader(r io.Reader) (*RecordReader, error) {
	var head [len(recordMagic)]byte
	if _, err := io.ReadFull(r, head[:]); err != nil || string(head[:]) != recordMagic {
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, fmt.Errorf("%w: %w", ErrRecord, err)
		}
		return nil, fmt.Errorf("%w: the file does not begin with %q; name one that sluice recorded", ErrRecord, recordMagic)
	}
	return &RecordReader{r: r, offset: int64(len(recordMagic))}, nil
}

// Next reads a frame into f, whose slices are good until the next call. It returns io.EOF at the end of the file,
// ErrCut where the file ends inside a frame, and another error that wraps ErrRecord where bytes are wrong; these two name
// the place.
func (r *RecordReader) Next(f *Frame) error {
	var head [frameHead]byte
	n, err := io.ReadFull(r.r, head[:])
	switch {
	case errors.Is(err, io.EOF) && n == 0:
		return io.EOF
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return r.at(ErrCut)
	case err != nil:
		return r.at(fmt.Errorf("%w: %w", ErrRecord, err))
	}
	size := binary.LittleEndian.Uint32(head[0:])
	if size < payloadHead || size > maxPayload {
		return r.at(fmt.Errorf("%w: a frame of %d bytes, must be %d to %d", ErrRecord, size, payloadHead, maxPayload))
	}
	if err := r.payload(int(size)); err != nil {
		return err
	}
	if got, want := crc32.Checksum(r.buf, castagnoli()), binary.LittleEndian.Uint32(head[4:]); got != want {
		return r.at(fmt.Errorf("%w: a frame's checksum is %08x, the file says %08x", ErrRecord, got, want))
	}
	if err := r.decode(f); err != nil {
		return r.at(err)
	}
	r.offset += int64(frameHead + len(r.buf))
	r.frames++
	return nil
}

// payload reads size bytes, in steps, so that a lying length costs no more memory than the file has bytes.
func (r *RecordReader) payload(size int) error {
	const step = 1 << 20
	r.buf = r.buf[:0]
	for len(r.buf) < size {
		from := len(r.buf)
		r.buf = append(r.buf, make([]byte, min(step, size-from))...)
		if _, err := io.ReadFull(r.r, r.buf[from:]); err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				return r.at(ErrCut)
			}
			return r.at(fmt.Errorf("%w: %w", ErrRecord, err))
		}
	}
	return nil
}

func (r *RecordReader) decode(f *Frame) error {
	p := r.buf
	in, out := uint64(binary.LittleEndian.Uint32(p[20:])), uint64(binary.LittleEndian.Uint32(p[24:]))
	if payloadHead+in+out != uint64(len(p)) {
		return fmt.Errorf("%w: a frame of %d bytes says %d of input and %d of answer", ErrRecord, len(p), in, out)
	}
	fault, ok := faultName(p[15])
	if !ok || p[14]&^flagNative != 0 || p[13] > byte(abi.ClassReplicated) {
		return fmt.Errorf("%w: class %d, flags %d and fault %d are not this version's", ErrRecord, p[13], p[14], p[15])
	}
	*f = Frame{
		Tick: binary.LittleEndian.Uint64(p[0:]), Rank: binary.LittleEndian.Uint32(p[8:]), Hook: abi.Hook(p[12]), Class: abi.Class(p[13]),
		Native: p[14]&flagNative != 0, Fault: fault, Status: abi.Status(int32(binary.LittleEndian.Uint32(p[16:]))),
		Fuel:  binary.LittleEndian.Uint64(p[28:]),
		Input: p[payloadHead : payloadHead+in], Answer: p[payloadHead+in:],
	}
	return nil
}

func (r *RecordReader) at(err error) error {
	return fmt.Errorf("frame %d at byte %d: %w", r.frames, r.offset, err)
}

// Recorder records what passes through the runners of one rank. It belongs to the rank's tick loop and allocates nothing
// once its buffer has grown to the largest batch.
type Recorder struct {
	w      *RecordWriter
	rank   uint32
	input  []byte
	encode func(abi.Batch)
	taken  func(abi.Batch)
	frame  Frame
	err    error
}

// NewRecorder makes a rank's recorder. Recorders may share a writer where one goroutine runs all ranks.
func NewRecorder(w *RecordWriter, rank int) *Recorder {
	r := &Recorder{w: w, rank: uint32(rank)}
	r.taken = r.take
	return r
}

// Input returns encode with the batch that it makes taken down, for one call of a runner.
func (r *Recorder) Input(encode func(abi.Batch)) func(abi.Batch) {
	r.encode, r.input = encode, r.input[:0]
	return r.taken
}

func (r *Recorder) take(b abi.Batch) {
	r.encode(b)
	r.input = append(append(append(r.input[:0], b.Header...), b.Globals...), b.In...)
}

// Output writes the frame of the call that Input was for: f with the recorder's rank, class and input. After the first
// error nothing more is written; Err tells it.
func (r *Recorder) Output(f Frame) {
	if r.err != nil {
		return
	}
	r.frame = f
	r.frame.Rank, r.frame.Class, r.frame.Input = r.rank, plugins.ClassOf(f.Hook), r.input
	r.err = r.w.Append(&r.frame)
}

// Run is r's Run with the call recorded.
func (r *Recorder) Run(runner *plugins.Runner, tick, epoch uint64, n, nOut int, encode func(abi.Batch)) (plugins.Answer, error) {
	a, err := runner.Run(tick, epoch, n, nOut, r.Input(encode))
	if err != nil {
		return a, err
	}
	fault := ""
	if a.Fault != nil {
		fault = a.Fault.Class.String()
	}
	r.Output(Frame{Tick: tick, Hook: runner.Hook(), Native: a.Native || a.Held, Fault: fault, Status: a.Status, Fuel: a.Fuel, Answer: a.Batch.Out})
	return a, nil
}

// Err is the first error of writing, nil if there was none.
func (r *Recorder) Err() error { return r.err }
