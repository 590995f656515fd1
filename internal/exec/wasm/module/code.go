package module

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
func (p *parser) body() {
	in := &p.in
	locals := uint64(0)
	for range in.count("groups of locals", p.limits.Locals) {
		locals += uint64(in.u32())
		p.valueType()
		if in.err == nil && locals > uint64(p.limits.Locals) {
			in.tooMany("locals in one function", locals, uint64(p.limits.Locals))
		}
	}
	p.instructions()
}

// constant reads an expression for the value of a global, an offset or an element. The engine
// checks that its instructions are constant.
func (p *parser) constant() { p.instructions() }

// instructions reads instructions up to the end of the expression.
func (p *parser) instructions() {
	for depth := 1; depth > 0 && p.in.err == nil; {
		switch op := p.in.byte(); op {
		case 0x02, 0x03, 0x04: // block, loop, if
			p.blockType()
			depth++
		case 0x0b: // end
			depth--
		default:
			p.instruction(op)
		}
	}
}

// blockType reads the type of a block: 0x40 for none, one type, or the index of a function
// type.
func (p *parser) blockType() {
	in := &p.in
	if !in.more() {
		in.malformed("it ends too early")
		return
	}
	switch b := in.data[in.at]; {
	case b == 0x40:
		in.at++
	case b&0xc0 == 0x40: // the one-byte negative numbers are types
		p.valueType()
	default:
		at := in.index("type", len(p.types))
		if in.err == nil && !p.limits.MultiValue && (p.types[at].Params != "" || len(p.types[at].Results) > 1) {
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
func (p *parser) instruction(op byte) {
	in := &p.in
	switch {
	case in.err != nil:
	case op <= 0x01, op == 0x05, op == 0x0f, op == 0x1a, op == 0x1b, op >= 0x45 && op <= 0xc4, op == 0xd1:
		// unreachable, nop, else, return, drop, select, numeric instructions, ref.is_null
	case op == 0x0c, op == 0x0d: // br, br_if
		in.u32()
	case op == 0x0e: // br_table
		for range in.count("targets in one br_table", p.limits.BranchTargets) {
			in.u32()
		}
		in.u32()
	case op == 0x10, op == 0xd2: // call, ref.func
		in.index("function", len(p.functions))
	case op == 0x11: // call_indirect
		in.index("type", len(p.types))
		in.index("table", p.tables)
	case op == 0x1c: // select with types
		p.valueTypes()
	case op >= 0x20 && op <= 0x22: // local.get, set, tee
		in.u32()
	case op == 0x23, op == 0x24: // global.get, set
		in.index("global", p.globals)
	case op == 0x25, op == 0x26: // table.get, set
		in.index("table", p.tables)
	case op >= 0x28 && op <= 0x3e: // loads and stores
		p.memoryArgument()
	case op == 0x3f, op == 0x40: // memory.size, grow
		p.theMemory()
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
		p.reference()
	case op == 0xfc:
		p.bulk()
	case op == 0xfd:
		p.vector()
	case otherFeatures[op] != "":
		in.refused(otherFeatures[op])
	default:
		in.malformed("the instruction %#x is unknown", op)
	}
}

// memoryArgument reads the alignment and the offset of a load or a store.
func (p *parser) memoryArgument() {
	in := &p.in
	if align := in.u32(); in.err == nil && align >= 32 {
		in.refused("several memories, or 64-bit ones")
	}
	in.u32()
	if in.err == nil && p.memories == 0 {
		in.malformed("an instruction uses a memory, but the module has none")
	}
}

// theMemory reads the index of the only memory, a zero byte.
func (p *parser) theMemory() { p.in.index("memory", p.memories) }

// bulk skips an instruction after 0xfc: saturating conversions, and operations on whole memories
// and tables.
func (p *parser) bulk() {
	in := &p.in
	switch op := in.u32(); {
	case in.err != nil:
	case op <= 7: // trunc_sat
	case op == 8: // memory.init
		in.u32()
		p.theMemory()
	case op == 9, op == 13: // data.drop, elem.drop
		in.u32()
	case op == 10: // memory.copy
		p.theMemory()
		p.theMemory()
	case op == 11: // memory.fill
		p.theMemory()
	case op == 12: // table.init
		in.u32()
		in.index("table", p.tables)
	case op == 14: // table.copy
		in.index("table", p.tables)
		in.index("table", p.tables)
	case op >= 15 && op <= 17: // table.grow, size, fill
		in.index("table", p.tables)
	default:
		in.malformed("the instruction 0xfc %d is unknown", op)
	}
}

// vector skips an instruction after 0xfd.
func (p *parser) vector() {
	in := &p.in
	op := in.u32()
	switch {
	case in.err != nil:
	case op >= 0x100:
		in.refused("relaxed SIMD")
	case !p.limits.SIMD:
		in.refused("SIMD")
	case op <= 11, op == 92, op == 93: // loads and stores
		p.memoryArgument()
	case op == 12, op == 13: // v128.const, i8x16.shuffle
		in.bytes(16)
	case op >= 21 && op <= 34: // lanes
		in.byte()
	case op >= 84 && op <= 91: // loads and stores of lanes
		p.memoryArgument()
		in.byte()
	}
}
