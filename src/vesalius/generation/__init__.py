"""Generation: sampling, an engine for processors, and what drives the one with the other."""

from vesalius.generation.decoding import Generation as Generation
from vesalius.generation.decoding import generate as generate
from vesalius.generation.sampling import Draw as Draw
from vesalius.generation.sampling import Sampling as Sampling
