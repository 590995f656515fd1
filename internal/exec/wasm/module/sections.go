package module

import (
	"encoding/binary"
	"slices"

	"palyra/internal/core/reason"
)

// The sections, by their ids.
const (
	custom = iota
	typeSection
	importSection
	functionSection
	tableSection
	memorySection
	globalSection
	exportSection
	startSection
	elementSection
	codeSection
	dataSection
	dataCountSection
	tagSection
)

// order is the required order of the sections.
var order = []byte{
	typeSection, importSection, functionSection, tableSection, memorySection, globalSection, exportSection,
	startSection, elementSection, dataCountSection, codeSection, dataSection,
}

func (p *parser) run() error {
	in := &p.in
	p.dataCount, p.exported = -1, map[string]bool{}
	p.header()
	last := -1
	for in.more() {
		id, size := in.byte(), in.u32()
		if in.err == nil && uint64(size) > uint64(len(in.data)-in.at) {
			in.malformed("a section of %d bytes does not fit", size)
		}
		if in.err != nil {
			break
		}
		place := slices.Index(order, id)
		switch {
		case id == custom:
			p.out.CustomBytes += int(size)
		case id == tagSection:
			in.refused("exceptions")
		case place < 0:
			in.malformed("section %d is unknown", id)
		case place <= last:
			in.malformed("section %d is out of order or a duplicate", id)
		default:
			last = place
		}
		p.section(id, in.at+int(size))
	}
	p.complete()
	return in.err
}

func (p *parser) header() {
	in := &p.in
	head := in.bytes(8)
	if in.err != nil {
		return
	}
	defer func(end int) { in.at = end }(in.at)
	in.at = 0 // the position of the error
	switch version := binary.LittleEndian.Uint32(head[4:]); {
	case string(head[:4]) != "\x00asm":
		in.malformed("it does not begin as a module does; compile text (.wat) first")
	case version == 0x1000d:
		in.refused("the component model")
	case version != 1:
		in.malformed("version %d is unknown", version)
	}
}

// section reads one section that ends at end.
func (p *parser) section(id byte, end int) {
	in := &p.in
	if in.err != nil {
		return
	}
	in.end = end
	switch id {
	case typeSection:
		p.readTypes()
	case importSection:
		p.readImports()
	case functionSection:
		p.readFunctions()
	case tableSection:
		p.readTables()
	case memorySection:
		p.readMemories()
	case globalSection:
		p.readGlobals()
	case exportSection:
		p.readExports()
	case startSection:
		p.readStart()
	case elementSection:
		p.readElements()
	case dataCountSection:
		p.readDataCount()
	case codeSection:
		p.readCode()
	case dataSection:
		p.readData()
	case custom:
		in.name()
		in.at = max(in.at, end)
	}
	if in.err == nil && in.at != end {
		in.malformed("a section is %d bytes longer than its entries", end-in.at)
	}
	in.end = 0
}

// complete runs the checks that need the whole module.
func (p *parser) complete() {
	in := &p.in
	if in.err != nil {
		return
	}
	if own := len(p.functions) - p.imported; own != p.bodies {
		in.malformed("%d functions are declared, but %d have a body", own, p.bodies)
	}
	if p.dataCount >= 0 && p.dataCount != p.data {
		in.malformed("%d data segments are declared, but %d exist", p.dataCount, p.data)
	}
	if p.memories > 0 && !p.memoryExported {
		in.fail(reason.Errorf(reason.InvalidInput, "the module does not export its memory as \"memory\", so it cannot receive any input").
			WithRemedy("Export it; compilers for wasip1 do."))
	}
	p.out.Memory, p.out.Functions = p.memories > 0, len(p.functions)-p.imported
	p.kind()
}

// kind determines the calling convention of the module.
func (p *parser) kind() {
	start, command := p.out.Exports["_start"]
	alloc, hasAlloc := p.out.Exports["palyra_alloc"]
	run, hasRun := p.out.Exports["run"]
	switch {
	case p.in.err != nil:
	case command && start == (FuncType{}) && p.out.Memory:
		p.out.Kind = Command
	case hasAlloc && hasRun && alloc == (FuncType{"i", "i"}) && run == (FuncType{"ii", "I"}) && p.out.Memory:
		p.out.Kind = ABI
	default:
		p.in.fail(reason.Errorf(reason.InvalidInput, "the module is neither a command of wasip1 (with the exports memory and _start) nor of the palyra ABI (memory, palyra_alloc(i32) -> i32 and run(i32, i32) -> i64)").
			WithRemedy("Build a program for wasip1, for instance with `GOOS=wasip1 GOARCH=wasm go build`, not a library or reactor."))
	}
}

func (p *parser) readTypes() {
	in := &p.in
	for range in.count("types", p.limits.Types) {
		switch form := in.byte(); {
		case in.err != nil:
		case form == 0x50 || form == 0x4f || form == 0x4e || form == 0x5f || form == 0x5e:
			in.refused("garbage-collected types")
		case form != 0x60:
			in.malformed("the type form %#x is unknown", form)
		}
		t := FuncType{Params: p.valueTypes(), Results: p.valueTypes()}
		if len(t.Results) > 1 && !p.limits.MultiValue {
			in.refused("several results of a function (multi-value)")
		}
		p.types = append(p.types, t)
	}
}

func (p *parser) readImports() {
	in := &p.in
	for range in.count("imports", p.limits.Imports) {
		from, name := in.name(), in.name()
		kind := in.byte()
		if in.err != nil {
			return
		}
		if from != WASI && from != Capabilities {
			in.fail(reason.Errorf(reason.InvalidInput, "the module imports %q from %q; only %s and %s are available", name, from, WASI, Capabilities).
				WithRemedy("Remove the code that needs it, or build for wasip1."))
		}
		if kind != 0 {
			in.fail(reason.Errorf(reason.InvalidInput, "the module imports %q from %q, which is not a function; a guest must define its own memory and can import only functions", name, from))
		}
		t := in.index("type", len(p.types))
		if in.err != nil {
			return
		}
		p.checkImport(from, name, p.types[t])
		p.functions = append(p.functions, p.types[t])
		p.out.Imports = append(p.out.Imports, Import{Module: from, Name: name, Type: p.types[t]})
	}
	p.imported = len(p.functions)
}

func (p *parser) readFunctions() {
	for range p.in.count("functions", p.limits.Functions-p.imported) {
		t := p.in.index("type", len(p.types))
		if p.in.err != nil {
			return
		}
		p.functions = append(p.functions, p.types[t])
	}
}

// sizes reads the initial and the maximum size of a table or a memory, and returns the initial
// size.
func (p *parser) sizes(what string, most uint64) uint64 {
	in := &p.in
	flags := in.byte()
	switch {
	case in.err != nil:
	case flags&^0x0f != 0:
		in.malformed("the limits form %#x is unknown", flags)
	case flags&4 != 0:
		in.refused("a 64-bit " + what + " (memory64)")
	case flags&2 != 0:
		in.refused("a shared " + what + " (threads)")
	case flags&8 != 0:
		in.refused("custom page sizes")
	}
	initial := uint64(in.u32())
	if flags&1 != 0 {
		if largest := uint64(in.u32()); in.err == nil && largest < initial {
			in.malformed("a %s is initially larger than its maximum", what)
		}
	}
	if in.err == nil && initial > most {
		in.tooMany("elements or pages in the initial "+what, initial, most)
	}
	return initial
}

func (p *parser) readTables() {
	in := &p.in
	for range in.count("tables", p.limits.Tables) {
		if in.more() && in.data[in.at] == 0x40 {
			in.refused("tables with an initial value (function references)")
		}
		p.reference()
		p.sizes("table", p.limits.TableElements)
		p.tables++
	}
}

func (p *parser) readMemories() {
	in := &p.in
	n := in.u32()
	if in.err == nil && n > 1 {
		in.refused("several memories")
	}
	if n == 1 {
		p.out.MemoryPages = p.sizes("memory", p.limits.MemoryPages)
		p.memories = 1
	}
}

func (p *parser) readGlobals() {
	in := &p.in
	for range in.count("globals", p.limits.Globals) {
		p.valueType()
		if mutable := in.byte(); in.err == nil && mutable > 1 {
			in.malformed("a global is neither constant nor variable")
		}
		p.expression()
		p.globals++
	}
}

func (p *parser) readExports() {
	in := &p.in
	for range in.count("exports", p.limits.Exports) {
		name, kind := in.name(), in.byte()
		if in.err != nil {
			return
		}
		if p.exported[name] {
			in.malformed("%q is exported twice", name)
		}
		p.exported[name] = true
		switch kind {
		case 0:
			if at := in.index("function", len(p.functions)); in.err == nil {
				p.out.Exports[name] = p.functions[at]
			}
		case 1:
			in.index("table", p.tables)
		case 2:
			in.index("memory", p.memories)
			p.memoryExported = p.memoryExported || name == "memory"
		case 3:
			in.index("global", p.globals)
		case 4:
			in.refused("exceptions")
		default:
			in.malformed("the export kind %d is unknown", kind)
		}
	}
}

func (p *parser) readStart() {
	at := p.in.index("function", len(p.functions))
	if p.in.err == nil && p.functions[at] != (FuncType{}) {
		p.in.malformed("the start function has parameters or results")
	}
}

// readElements reads the element segments. Bit 0 of the flags marks a passive or declared
// segment. Bit 1 marks an explicit table or, with bit 0, a declared segment. Bit 2 marks
// expressions instead of function indices.
func (p *parser) readElements() {
	in := &p.in
	for range in.count("element segments", p.limits.Elements) {
		flags := in.u32()
		if in.err == nil && flags > 7 {
			in.malformed("the element segment form %d is unknown", flags)
		}
		if flags&1 == 0 {
			if flags&2 != 0 {
				in.index("table", p.tables)
			} else if in.err == nil && p.tables == 0 {
				in.malformed("an element segment fills a table, but the module has none")
			}
			p.expression()
		}
		expressions := flags&4 != 0
		if flags&3 != 0 {
			if expressions {
				p.reference()
			} else if kind := in.byte(); in.err == nil && kind != 0 {
				in.malformed("the element kind %d is unknown", kind)
			}
		}
		for range in.count("elements of one segment", int(min(p.limits.TableElements, uint64(len(in.data))))) {
			if expressions {
				p.expression()
			} else {
				in.index("function", len(p.functions))
			}
		}
	}
}

func (p *parser) readDataCount() { p.dataCount = int(p.in.u32()) }

func (p *parser) readData() {
	in := &p.in
	for range in.count("data segments", p.limits.Data) {
		flags := in.u32()
		if in.err == nil && flags > 2 {
			in.malformed("the data segment form %d is unknown", flags)
		}
		if flags == 2 {
			in.index("memory", p.memories)
		}
		if flags != 1 {
			if in.err == nil && p.memories == 0 {
				in.malformed("a data segment fills a memory, but the module has none")
			}
			p.expression()
		}
		p.out.DataBytes += len(in.bytes(in.u32()))
		p.data++
	}
}
