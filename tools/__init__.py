"""Programs that write files of this repository: pictures, references, bytecode."""
