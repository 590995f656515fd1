package module

import "strings"

func (p *parser) readCode() {
	in, sectionEnd := &p.in, p.in.end
	own := len(p.functions) - p.imported
	for range in.count("function bodies", own) {
		size := in.u32()
		switch {
		case in.err != nil:
			return
		case uint64(size) > uint64(max(p.limits.BodyBytes, 0)):
			in.tooMany("bytes in the body of one function", uint64(size), uint64(max(p.limits.BodyBytes, 0)))
			return
		case uint64(size) > uint64(sectionEnd-in.at):
			in.malformed("a function's body does not fit")
			return
		}
		in.end = in.at + int(size)
		p.body()
		if in.err == nil && in.at != in.end {
			in.malformed("a function continues after its end")
		}
		p.out.CodeBytes += int(size)
		p.bodies++
		in.end = sectionEnd
	}
}

// body reads the locals and the instructions of one function.
func (s *scope) body() {
	in := &s.in
	locals := uint64(0)
	for range in.count("groups of locals", s.limits.Locals) {
		locals += uint64(in.u32())
		s.valueType()
		if in.err == nil && locals > uint64(s.limits.Locals) {
			in.tooMany("locals in one function", locals, uint64(s.limits.Locals))
		}
	}
	s.expression()
}

// expression reads instructions up to the end of a function body, or of the value of a global, an
// offset or an element. The engine checks that the latter are constant.
func (s *scope) expression() {
	for depth := 1; depth > 0 && s.in.err == nil; {
		switch op := s.in.byte(); op {
		case 0x02, 0x03, 0x04: // block, loop, if
			s.blockType()
			depth++
		case 0x0b: // end
			depth--
		default:
			s.instruction(op)
		}
	}
}

// blockType reads the type of a block: 0x40 for none, one type, or the index of a function
// type.
func (s *scope) blockType() {
	in := &s.in
	if !in.more() {
		in.malformed("it ends too early")
		return
	}
	switch b := in.data[in.at]; {
	case b == 0x40:
		in.at++
	case b&0xc0 == 0x40: // the one-byte negative numbers are types
		s.valueType()
	default:
		at := in.index("type", len(s.types))
		if in.err == nil && !s.limits.MultiValue && (s.types[at].Params != "" || len(s.types[at].Results) > 1) {
			in.refused("blocks with parameters or several results (multi-value)")
		}
	}
}

// otherFeatures maps the instructions of disabled features to the names of the features.
var otherFeatures = map[byte]string{
	0x06: "exceptions", 0x07: "exceptions", 0x08: "exceptions", 0x09: "exceptions", 0x0a: "exceptions",
	0x18: "exceptions", 0x19: "exceptions", 0x1f: "exceptions",
	0x12: "tail calls", 0x13: "tail calls",
	0x14: "function references", 0x15: "function references", 0xd4: "function references", 0xd5: "function references", 0xd6: "function references",
	0xd3: "garbage collection", 0xfb: "garbage collection",
	0xfe: "threads",
}

// instruction skips the immediates of one instruction.
func (s *scope) instruction(op byte) {
	in := &s.in
	switch {
	case in.err != nil:
	case op <= 0x01, op == 0x05, op == 0x0f, op == 0x1a, op == 0x1b, op >= 0x45 && op <= 0xc4, op == 0xd1:
		// unreachable, nop, else, return, drop, select, numeric instructions, ref.is_null
	case op == 0x0c, op == 0x0d: // br, br_if
		in.u32()
	case op == 0x0e: // br_table
		for range in.count("targets in one br_table", s.limits.BranchTargets) {
			in.u32()
		}
		in.u32()
	case op == 0x10, op == 0xd2: // call, ref.func
		in.index("function", len(s.functions))
	case op == 0x11: // call_indirect
		in.index("type", len(s.types))
		in.index("table", s.tables)
	case op == 0x1c: // select with types
		s.valueTypes()
	case op >= 0x20 && op <= 0x22: // local.get, set, tee
		in.u32()
	case op == 0x23, op == 0x24: // global.get, set
		in.index("global", s.globals)
	case op == 0x25, op == 0x26: // table.get, set
		in.index("table", s.tables)
	case op >= 0x28 && op <= 0x3e: // loads and stores
		s.memoryArgument()
	case op == 0x3f, op == 0x40: // memory.size, grow
		s.theMemory()
	case op == 0x41:
		in.skipSigned(32)
	case op == 0x42:
		in.skipSigned(64)
	case op == 0x43:
		in.bytes(4)
	case op == 0x44:
		in.bytes(8)
	case op == 0xd0: // ref.null
		if in.more() && in.data[in.at] < 0x40 { // the index of a type
			in.refused("function references")
		}
		s.reference()
	case op == 0xfc:
		s.bulk()
	case op == 0xfd:
		s.vector()
	case otherFeatures[op] != "":
		in.refused(otherFeatures[op])
	default:
		in.malformed("the instruction %#x is unknown", op)
	}
}

// memoryArgument reads the alignment and the offset of a load or a store.
func (s *scope) memoryArgument() {
	in := &s.in
	if align := in.u32(); in.err == nil && align >= 32 {
		in.refused("several memories, or 64-bit ones")
	}
	in.u32()
	if in.err == nil && s.memories == 0 {
		in.malformed("an instruction uses a memory, but the module has none")
	}
}

// theMemory reads the index of the only memory, a zero byte.
func (s *scope) theMemory() { s.in.index("memory", s.memories) }

// bulk skips an instruction after 0xfc: saturating conversions, and operations on whole memories
// and tables.
func (s *scope) bulk() {
	in := &s.in
	switch op := in.u32(); {
	case in.err != nil:
	case op <= 7: // trunc_sat
	case op == 8: // memory.init
		in.u32()
		s.theMemory()
	case op == 9, op == 13: // data.drop, elem.drop
		in.u32()
	case op == 10: // memory.copy
		s.theMemory()
		s.theMemory()
	case op == 11: // memory.fill
		s.theMemory()
	case op == 12: // table.init
		in.u32()
		in.index("table", s.tables)
	case op == 14: // table.copy
		in.index("table", s.tables)
		in.index("table", s.tables)
	case op >= 15 && op <= 17: // table.grow, size, fill
		in.index("table", s.tables)
	default:
		in.malformed("the instruction 0xfc %d is unknown", op)
	}
}

// vector skips an instruction after 0xfd.
func (s *scope) vector() {
	in := &s.in
	op := in.u32()
	switch {
	case in.err != nil:
	case op >= 0x100:
		in.refused("relaxed SIMD")
	case !s.limits.SIMD:
		in.refused("SIMD")
	case op <= 11, op == 92, op == 93: // loads and stores
		s.memoryArgument()
	case op == 12, op == 13: // v128.const, i8x16.shuffle
		in.bytes(16)
	case op >= 21 && op <= 34: // lanes
		in.byte()
	case op >= 84 && op <= 91: // loads and stores of lanes
		s.memoryArgument()
		in.byte()
	}
}

// maxValues is the maximum number of parameters and of results of a type, as in engines.
const maxValues = 1000

func (s *scope) valueTypes() string {
	var b strings.Builder
	for range s.in.count("parameters or results of one type", maxValues) {
		b.WriteByte(s.valueType())
	}
	return b.String()
}

// valueType reads the type of a value and returns its letter.
func (s *scope) valueType() byte {
	in := &s.in
	switch t := in.byte(); {
	case in.err != nil:
	case t == 0x7f:
		return 'i'
	case t == 0x7e:
		return 'I'
	case t == 0x7d:
		return 'f'
	case t == 0x7c:
		return 'F'
	case t == 0x70:
		return 'r'
	case t == 0x6f:
		return 'x'
	case t == 0x7b && s.limits.SIMD:
		return 'v'
	case t == 0x7b:
		in.refused("SIMD")
	case t == 0x63 || t == 0x64 || t >= 0x6a && t <= 0x6e || t >= 0x71 && t <= 0x74:
		in.refused("types of references other than to functions and to the host")
	case t == 0x69 || t == 0x68:
		in.refused("exceptions or continuations")
	default:
		in.malformed("the value type %#x is unknown", t)
	}
	return '?'
}

func (s *scope) reference() {
	if t := s.valueType(); s.in.err == nil && t != 'r' && t != 'x' {
		s.in.malformed("a table of values other than references")
	}
}
